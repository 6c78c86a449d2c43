"""The adapter of a module is found without the libraries that it does not need."""

import re
import types
from pathlib import Path

import numpy as np
import pytest

import conformance
import impl
from conformance.adapters import base, jax
from conformance.adapters.base import Adapter, resolve
from conformance.tests._small import Small
from impl.tests.support import processes


def test_a_module_without_an_adapter_is_a_namespace_of_jax_functions():
    module = types.ModuleType("functions")
    assert type(base.of(module)) is jax.JaxNamespace
    assert base.of(module).namespace is module
    assert type(base.of(impl)) is jax.Samebits


def test_an_adapter_is_its_own_and_that_of_the_module_that_offers_it():
    small, module = Small(), types.ModuleType("library")
    module.IMPLEMENTATION = small
    assert base.of(small) is base.of(module) is small


def test_what_is_offered_and_is_no_adapter_is_refused():
    module = types.ModuleType("library")
    module.IMPLEMENTATION = object()
    with pytest.raises(TypeError, match=r"library\.IMPLEMENTATION is .*derived from"):
        base.of(module)


def test_an_adapter_lacks_nothing_that_has_no_default():
    with pytest.raises(TypeError, match="abstract"):
        Adapter()
    assert Adapter.__abstractmethods__ == {"into", "gradient", "versions"}


def test_an_op_is_found_by_its_dotted_name():
    assert resolve(np, "linalg.norm") is np.linalg.norm
    assert resolve(np, "linalg") is None
    assert resolve(np, "no.such.op") is None


CHILD = """
import sys
import pytest
from conformance.__main__ import _PLUGINS, _SUITE

plugins = [word for name in _PLUGINS for word in ("-p", name)]
suite = ["-c", str(_SUITE / "pytest.ini"), str(_SUITE)]
namespace = "--namespace=conformance.tests._small"
status = pytest.main([*plugins, *suite, namespace, "--collect-only", "-q", "-k", "cumsum"])
assert status == 0, status
print(sorted(name for name in ("impl", "jax") if name in sys.modules))
"""


def test_another_implementation_is_tested_without_jax_and_without_impl():
    done = processes.run("-c", CHILD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_the_example_of_the_documents_defines_all_that_an_adapter_needs():
    page = Path(conformance.__file__).parents[1] / "docs" / "third-parties.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    module = types.ModuleType("example")
    exec(code, vars(module))
    adapter = base.of(module)
    assert (adapter.name, adapter.versions()) == ("mine", {"mine": "1.2"})
    assert resolve(adapter.namespace, "use_deterministic_algorithms") is None  # it is left out
    assert set(vars(adapter.namespace)) > {"use_deterministic_algorithms", "deterministic"}
    # Each name in the table exists.
    names = re.findall(r"^\| `(\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name in names if not hasattr(adapter, name)} == set()
