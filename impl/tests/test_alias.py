"""``samebits``: another name of ``impl``, with the same modules, functions and classes.

Tests: impl._alias.samebits.
"""

from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import jax
import jax.numpy as jnp
import pytest

import impl
from impl.tests.test_api import OPS, PUBLIC, is_package
from impl.tests.test_shadowing import run

if TYPE_CHECKING:
    import samebits
    import samebits.nn.functional

FIRST = """
import samebits as sb
import samebits.nn.functional
from samebits import audit
from samebits.utils.data import DataLoader
import impl, impl.random
"""
SECOND = """
import impl, impl.random, impl.nn.functional
from impl import audit
from impl.utils.data import DataLoader
import samebits, samebits.random, samebits.nn.functional
import samebits as sb
"""
SAME = """
import pickle, sys
assert sb is samebits is impl is sys.modules["samebits"]
assert audit is samebits.audit is impl.audit
assert samebits.random is impl.random
assert samebits.nn.functional is impl.nn.functional is sys.modules["samebits.nn.functional"]
assert DataLoader is impl.utils.data.DataLoader
assert pickle.loads(pickle.dumps(sb.Generator)) is impl.Generator
assert impl.nn.functional.__spec__.name == impl.nn.functional.__name__ == "impl.nn.functional"
assert [m.__name__ for m in sys.modules.values() if m.__name__.startswith("samebits")] == []
try:
    import samebits.nothing
except ModuleNotFoundError as error:
    assert error.name == "samebits.nothing"
else:
    raise AssertionError
"""


@pytest.mark.parametrize("program", [FIRST, SECOND], ids=["first", "second"])
def test_no_module_is_imported_twice(tmp_path, program):
    # A clone of the repository may be a folder of that name, which is not in the way.
    (tmp_path / "samebits").mkdir()
    done = run(tmp_path, "-c", program + SAME)
    assert done.returncode == 0, done.stderr


def test_the_module_is_a_command():
    done = run(None, "-m", "samebits", "--version")
    assert done.stdout.strip() == f"samebits {impl.__version__}", done.stderr


def test_type_checkers_find_every_public_module():
    folder = Path(impl.__file__).parent / "_alias" / "samebits"
    if not folder.exists():
        pytest.skip("a wheel has the stubs elsewhere")
    expected = {}
    for name in set(PUBLIC) - set(OPS) - {"impl.__main__"}:
        path = folder.joinpath(*name.split(".")[1:])
        stub = path / "__init__.pyi" if is_package(name) else path.with_suffix(".pyi")
        expected[stub] = f"from {name} import *\n"
    assert {stub: stub.read_text() for stub in folder.rglob("*.pyi")} == expected


def test_type_checkers_know_the_names() -> None:
    if TYPE_CHECKING:  # `nox -s lint` checks the types.
        assert_type(samebits.__version__, str)
        assert_type(samebits.are_deterministic_algorithms_enabled(), bool)
        assert_type(samebits.random.initial_seed(), int)
        assert_type(samebits.nn.functional.pad(jnp.ones(3), (1, 1)), jax.Array)
