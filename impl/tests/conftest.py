"""What every test of impl gets: the process-wide mode as it found it, restored afterwards."""

import pytest

from impl import modes


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
