"""Without Pallas' Triton backend: scatters are ordered on a GPU by operations of XLA.

Tests: impl._kernels.pallas.
"""

import json
import sys
import warnings

import jax
import jax.numpy as jnp
import pytest

import impl
from impl._kernels import pallas
from impl.diagnosis import _program
from impl.tests.support import processes
from impl.tests.support.programs import scatters_floats

BACKEND = "jax.experimental.pallas.triton"
#: The custom call of a kernel.
KERNEL = "__gpu$xla.gpu.triton"
X = jnp.ones((4, 3))


@pytest.fixture
def hidden(monkeypatch):
    """Hides the backend from this process, which forgets that it has it."""
    pallas.reason_missing.cache_clear()
    monkeypatch.setitem(sys.modules, BACKEND, None)
    yield
    pallas.reason_missing.cache_clear()


@pytest.mark.usefixtures("hidden")
def test_a_missing_backend_is_found():
    reason = pallas.reason_missing()
    assert reason.startswith(f"jax {jax.__version__} cannot import {BACKEND} (ModuleNotFoundError")


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("module", list(pallas.PARTS))
def test_an_import_that_warns_or_lacks_a_name_is_a_missing_backend(monkeypatch, module):
    def warn(_):
        warnings.warn("Pallas goes", DeprecationWarning, stacklevel=1)

    monkeypatch.setattr(pallas, "PARTS", {module: pallas.PARTS[module]})
    monkeypatch.setattr(pallas.importlib, "import_module", warn)
    assert pallas.reason_missing().endswith(
        f"cannot import {module} (DeprecationWarning: Pallas goes)"
    )
    pallas.reason_missing.cache_clear()
    monkeypatch.setattr(pallas.importlib, "import_module", lambda _: sys)
    names = ", ".join(pallas.PARTS[module])
    assert pallas.reason_missing() == f"jax {jax.__version__} has no {names} in {module}"


PROGRAM = f"""
import json, sys
sys.modules["{BACKEND}"] = None
import jax.numpy as jnp
import impl
x = jnp.ones((40, 3))
with impl.deterministic(profile="complete"):
    text = impl.testing.lower(lambda x: impl.cumprod(x, 0), x).as_text()
print(json.dumps(["{KERNEL}" in text, impl.cumprod(x, 0)[-1].tolist()]))
"""


def test_a_process_without_the_backend_imports_and_lowers():
    done = processes.run("-c", PROGRAM)
    assert json.loads(done.stdout) == [False, [1.0, 1.0, 1.0]], done.stderr


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("method", ["add", "subtract", "multiply", "set"])
def test_a_scatter_is_ordered_by_operations_of_xla(method):
    def scatter(x, i):
        return getattr(x.at[i], method)(x)

    index = jnp.array([1, 1, 0, 1])
    with impl.deterministic():
        text = impl.testing.lower(scatter, X, index).as_text()
        assert KERNEL not in text
        assert not scatters_floats(text)
        with impl.testing.emulate("cuda"):
            ordered = jax.jit(scatter)(2 * X, index)
    with impl.deterministic(False):
        assert KERNEL not in impl.testing.lower(scatter, X, index).as_text()
    assert ordered.tolist() == jnp.asarray(scatter(2 * X, index)).tolist()


@pytest.mark.usefixtures("hidden")
def test_the_audit_says_so():
    def program(x):
        return impl.index_reduce(x, 0, jnp.zeros(len(x), int), x, "prod")

    with impl.deterministic(profile="complete"):
        (note,) = impl.audit(program)(X).notes
        assert f"has no kernels: {pallas.reason_missing()}. XLA's operations compute 1 sc" in note
        assert impl.audit(program, device="cpu")(X).notes == ()
        assert impl.audit(jnp.sin)(X).notes == ()


def test_the_doctor_says_so(request):
    assert [*_program.kernels("cpu"), *_program.kernels("rocm"), *_program.kernels(None)] == []
    if pallas.reason_missing() is None:
        (item,) = _program.kernels("cuda")
        assert item.value == "found"
    request.getfixturevalue("hidden")
    (item,) = _program.kernels("cuda")
    assert item.value is None
    assert pallas.reason_missing() in item.reason
