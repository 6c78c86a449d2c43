"""A quick poll and a clock for the loop of a run."""

import time
import types

import pytest

from conformance.hardware import runner
from conformance.hardware.results import RunResults


@pytest.fixture(autouse=True)
def quick_poll(monkeypatch):
    monkeypatch.setattr(runner, "_POLL_INTERVAL", 0.02)


@pytest.fixture
def clock_that_jumps(monkeypatch):
    """Lets the clock of the loop jump from 0 to 1000 seconds at the first result."""
    add = RunResults.add
    clock = types.SimpleNamespace(now=0.0, monotonic=lambda: clock.now, sleep=time.sleep)

    def add_and_jump(results, test):
        add(results, test)
        clock.now = 1000.0

    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(RunResults, "add", add_and_jump)
