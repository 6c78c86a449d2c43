"""A pytest plugin that breaks what a run in rounds has to find, in two of its processes."""

import os
import signal

import pytest

from conformance import trial

_bits = trial.bits


def pytest_configure(config):
    number = config.getoption("--round")
    # The same in a process, and not the same in the next round.
    trial.bits = lambda result: _bits((result, number))


@pytest.hookimpl
def pytest_runtest_setup(item):
    if "test_unlisted" in item.name and item.config.getoption("--journal"):
        os.kill(os.getpid(), signal.SIGKILL)
