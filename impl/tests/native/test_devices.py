"""Calls of the native engine over several devices.

Tests: impl._native.devices, impl._native.partitioned, impl._native.call, impl._native.operation,
impl._native.scope.
"""

from pathlib import Path

from impl.tests.support import eight_devices


def test_on_eight_devices(pytestconfig):
    file = Path(__file__).with_name("calls_on_eight_devices.py")
    eight_devices.run(file, marks=pytestconfig.option.markexpr)
