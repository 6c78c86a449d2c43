"""A pytest plugin with two faults that a run in rounds must find.

The bits differ between rounds, and the process dies during one test.
"""

import os
import signal

import pytest

from conformance import trial

_bits = trial.bits


def pytest_configure(config):
    number = config.getoption("--round")
    # The bits are the same within a process, and differ in the next round.
    trial.bits = lambda result: _bits((result, number))


@pytest.hookimpl
def pytest_runtest_setup(item):
    if "test_off" in item.name and item.config.getoption("--journal"):
        os.kill(os.getpid(), signal.SIGKILL)
