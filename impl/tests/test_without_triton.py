"""Without Pallas' Triton backend: every op is lowered for a GPU, with the bits of the kernels.

Tests: impl._kernels.pallas.
"""

import functools
import json
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import pytest

import impl
from impl._kernels import pallas, triton
from impl._primitives import _common
from impl.diagnosis import _program
from impl.tests.every_op.programs import outputs_and_gradient
from impl.tests.every_op.public_ops import named_samples, primitives_of
from impl.tests.every_op.sample import Sample
from impl.tests.support.bits import assert_all_same_bits
from impl.tests.support.programs import scatters_floats

BACKEND = "jax.experimental.pallas.triton"
#: The custom call of a kernel.
KERNEL = "__gpu$xla.gpu.triton"
X = jnp.ones((4, 3))
#: The samples of sums that are too small for a kernel: XLA's operations compute them.
TOO_FEW = {"bincount", "bmm-sparse"}


@pytest.fixture
def hidden(monkeypatch):
    """Hides the backend from this process, which forgets that it has it."""
    pallas.reason_missing.cache_clear()
    monkeypatch.setitem(sys.modules, BACKEND, None)
    yield
    pallas.reason_missing.cache_clear()


def fresh(function, sample):
    """Returns a program of a function of a sample and its arrays, which JAX has not lowered yet."""
    return jax.jit(functools.partial(function, sample))


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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True
    )
    assert json.loads(done.stdout) == [False, [1.0, 1.0, 1.0]]


def one_for_each_primitive():
    """Returns a sample for each primitive with kernels."""
    known, found, chosen = {primitive.name for primitive in _common.with_kernels}, set(), []
    for name, sample in named_samples().items():
        launches = primitives_of(sample) & known
        if launches - found:
            found |= launches
            chosen.append(pytest.param(sample, id=name))
    return chosen


each_primitive = pytest.mark.parametrize("sample", one_for_each_primitive())


# every_op/test_untried_platforms.py lowers each op for AMD's GPUs, which have no kernels either.
@pytest.mark.once
@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("mode", [True, False])
@each_primitive
def test_a_primitive_is_lowered_for_cuda(sample, mode):
    with impl.deterministic(mode, profile="complete"):
        text = impl.testing.lower(fresh(Sample.outputs, sample), *sample.arrays).as_text()
    assert KERNEL not in text
    assert not (mode and scatters_floats(text))


@pytest.fixture
def launches(monkeypatch):
    """Returns the names of the kernels that the test launches, as a list."""
    names, run = [], triton.run

    def recorded(*args, name, **options):
        names.append(name)
        return run(*args, name=name, **options)

    monkeypatch.setattr(triton, "run", recorded)
    return names


@pytest.mark.once  # The suite tries both stand-ins for each row.
@pytest.mark.triton
@each_primitive
def test_xla_has_the_bits_of_the_kernels(request, launches, sample):
    # An exponential has other bits in another fusion, unless XLA optimises as little as it can.
    options = {"xla_backend_optimization_level": 0}

    def run():
        with impl.deterministic(profile="complete"), impl.testing.emulate("cuda"):
            lowered = fresh(outputs_and_gradient, sample).lower(*sample.arrays)
        return jax.tree.leaves(lowered.compile(options)(*sample.arrays))

    want = run()
    assert bool(launches) == (request.node.callspec.id not in TOO_FEW)
    launches.clear()
    request.getfixturevalue("hidden")
    assert_all_same_bits(run(), want)
    assert launches == []


@pytest.mark.usefixtures("hidden")
def test_the_audit_says_so():
    def program(x):
        return impl.index_reduce(x, 0, jnp.zeros(len(x), int), x, "prod")

    with impl.deterministic(profile="complete"):
        (note,) = impl.audit(program)(X).notes
        assert f"has no kernels: {pallas.reason_missing()}. XLA's operations compute 1 eq" in note
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
