"""The options of the suite, and the adapter that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.adapters.base import Adapter, load

_ADAPTER = pytest.StashKey[Adapter]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of ``python -m conformance run``."""
    group = parser.getgroup("samebits conformance")
    group.addoption("--device", default=None, help="cpu or cuda; default: what JAX computes on")
    group.addoption("--profile", default=None, help="only this profile")
    group.addoption("--namespace", default="impl", help="the module whose ops are tried")
    group.addoption("--repeats", type=int, default=None, help="runs whose bits are compared")
    group.addoption("--report", type=Path, default=None, help="write a JSON report to this file")


def implementation(config: pytest.Config) -> Adapter:
    """Returns the adapter of the implementation under test."""
    if _ADAPTER not in config.stash:
        config.stash[_ADAPTER] = load(config.getoption("--namespace"))
    return config.stash[_ADAPTER]
