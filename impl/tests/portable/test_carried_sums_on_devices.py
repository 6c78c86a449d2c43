"""Sums that a ``scan`` carries, on several devices."""

from pathlib import Path

from impl.tests.support import eight_devices


def test_on_eight_devices(pytestconfig):
    file = Path(__file__).with_name("carried_sums_on_eight_devices.py")
    eight_devices.run(file, marks=pytestconfig.option.markexpr)
