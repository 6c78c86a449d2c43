"""A pytest plugin with two faults that a run in rounds must find.

The bits differ between rounds, and the process dies during one test.
"""

import os
import signal

import pytest

from conformance import bits

_digest = bits.digest


def pytest_configure(config):
    number = config.getoption("--round")
    # The bits are the same within a process, and differ in the next round.
    bits.digest = lambda result: _digest((result, number))


@pytest.hookimpl
def pytest_runtest_setup(item):
    if "test_off" in item.name and item.config.getoption("--journal"):
        os.kill(os.getpid(), signal.SIGKILL)
