"""What every test of impl gets: the process-wide mode as it found it, restored afterwards."""

import pytest

from impl import mode


@pytest.fixture(autouse=True)
def restored_mode():
    before, fill = mode.current(), mode.fill_uninitialized_memory()
    yield
    mode._mode.set_global(before)
    mode._fill.set_global(fill)


@pytest.fixture
def complete():
    """The mode on, under the profile in which every op is ordered."""
    mode.use_deterministic_algorithms(True, profile="complete")
