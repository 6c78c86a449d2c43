"""What every test of impl gets: the process-wide mode as it found it, restored afterwards."""

import contextlib

import pytest

import impl
from impl._mode import modes
from impl.tests._state import restored_state as restored_state
from impl.tests._support import LOWERINGS, STAND_INS


def _is_text(value):
    return isinstance(value, str)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks what runs by a stand-in for another device, which conformance does as well."""
    for item in items:
        given = getattr(item, "callspec", None)
        if given and STAND_INS.intersection(filter(_is_text, given.params.values())):
            item.add_marker(pytest.mark.stand_in)


@pytest.fixture(autouse=True)
def restored_mode():
    before, fill = modes.current(), modes.fill_uninitialized_memory()
    yield
    modes._mode.set_global(before)
    modes._fill.set_global(fill)


@pytest.fixture
def complete():
    """The mode on, under the profile in which every op is ordered."""
    modes.use_deterministic_algorithms(True, profile="complete")


@pytest.fixture(params=["native", "xla", "seed 1"])
def lowering(request):
    """A lowering of the ordered path; "xla" masks as kernels do."""
    with LOWERINGS[request.param]():
        yield request.param


@pytest.fixture(params=["off", "native", "seed 1"])
def path(request):
    """The path of the mode off, and lowerings of the ordered one."""
    off = request.param == "off"
    with contextlib.ExitStack() as stack:
        stack.enter_context(impl.deterministic(not off, profile="complete"))
        if not off:
            stack.enter_context(LOWERINGS[request.param]())
        yield request.param
