"""A pytest plugin with a fault that a run in rounds must find: bits differ between rounds."""

from conformance import bits

_digest = bits.digest


def pytest_configure(config):
    number = config.getoption("--round")
    # The bits are the same within a process, and differ in the next round.
    bits.digest = lambda result: _digest((result, number))
