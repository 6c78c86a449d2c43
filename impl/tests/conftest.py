"""Fixtures of all tests of impl: the mode, the lowerings of a path, and PyTorch."""

import contextlib
import gc

import jax
import numpy as np
import pytest

import impl
from impl._mode import modes
from impl.tests._state import restored_state as restored_state
from impl.tests.support.backend import pytest_runtest_setup as pytest_runtest_setup
from impl.tests.support.lowerings import LOWERINGS, STAND_INS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks the tests in which the CPU stands in for another device.

    The conformance suite runs the stand-ins too, so one of several interpreters may skip these.
    """
    for item in items:
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters else ()
        if any(isinstance(value, str) and value in STAND_INS for value in values):
            item.add_marker(pytest.mark.stand_in)


def pytest_collection_finish():
    """Spares the garbage collector the modules and the tests, which live until the run ends.

    Tracing allocates so much that collections would otherwise take a tenth of a run.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture
def complete():
    """Turns the mode on, under the profile in which every op is ordered."""
    modes.use_deterministic_algorithms(True, profile="complete")


@pytest.fixture
def portable():
    """Turns the mode on, with the guarantee under which every sum is exact."""
    with impl.deterministic(profile="complete", guarantee="portable"):
        yield


@pytest.fixture
def wide():
    """Turns dtypes of 64 bits on."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["float32", "float64"])
def real(request):
    """Returns the name of a dtype; float64 with dtypes of 64 bits turned on."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param


@pytest.fixture(params=["native", "xla", "seed 1"])
def lowering(request):
    """Runs the test in each lowering of the ordered path; "xla" masks as kernels do."""
    with LOWERINGS[request.param]():
        yield request.param


@pytest.fixture(params=["off", "native", "seed 1"])
def path(request):
    """Runs the test with the mode off, and in lowerings of the ordered path."""
    off = request.param == "off"
    with contextlib.ExitStack() as stack:
        stack.enter_context(impl.deterministic(not off, profile="complete"))
        if not off:
            stack.enter_context(LOWERINGS[request.param]())
        yield request.param


@pytest.fixture
def rng():
    """Returns a new generator of random numbers, the same in each test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def torch():
    """Returns PyTorch, imported when a test first needs it."""
    return pytest.importorskip("torch", reason="compares with PyTorch")


@pytest.fixture
def deterministic_torch(torch):
    """Returns PyTorch with its deterministic mode on; ``restored_state`` turns it off again."""
    torch.use_deterministic_algorithms(True)
    return torch
