"""The mark ``triton``, of tests about kernels: they are skipped where JAX has no backend for them.

A conftest activates it by importing the hook.
"""

import pytest

from impl._kernels import pallas


def pytest_runtest_setup(item):
    """Skips a test with the mark if kernels cannot be launched."""
    if item.get_closest_marker("triton") is None:
        return
    reason = pallas.reason_missing()
    if reason is not None:
        pytest.skip(f"needs Pallas' Triton backend: {reason}")
