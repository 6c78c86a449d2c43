"""A pytest plugin that breaks what a run in rounds has to find, in two of its processes."""

import os
import signal

import pytest

from conformance import bits

_digest = bits.digest


def pytest_configure(config):
    number = config.getoption("--round")
    # The same in a process, and not the same in the next round.
    bits.digest = lambda result: _digest((result, number))


@pytest.hookimpl
def pytest_runtest_setup(item):
    if "test_unlisted" in item.name and item.config.getoption("--journal"):
        os.kill(os.getpid(), signal.SIGKILL)
