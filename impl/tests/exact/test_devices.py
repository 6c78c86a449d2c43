"""Exact sums and products of arrays that lie on several devices.

Tests: impl._core.devices.
"""

from pathlib import Path

from impl.tests.support import eight_devices

HERE = Path(__file__).parent


def test_on_eight_devices(pytestconfig):
    eight_devices.run(
        HERE / "sums_on_eight_devices.py",
        HERE / "products_on_eight_devices.py",
        HERE.parent / "portable" / "joined_sums_on_eight_devices.py",
        HERE.parent / "portable" / "scopes_on_eight_devices.py",
        marks=pytestconfig.option.markexpr,
    )
