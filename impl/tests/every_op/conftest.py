"""The mode of the tests of every op: on, under the profile in which every op is ordered."""

import pytest

import impl


@pytest.fixture(autouse=True)
def complete_mode():
    """Turns the mode on for one test."""
    with impl.deterministic(profile="complete"):
        yield
