"""Sums that a ``scan`` carries, on several devices."""

from pathlib import Path

from impl.tests.support import eight_devices


def test_on_eight_devices():
    eight_devices.run(Path(__file__).parent / "carried_sums_on_eight_devices.py")
