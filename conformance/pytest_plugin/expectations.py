"""Applies a file of expectations to a run.

A test that matches an entry of the file is expected to fail, or is skipped. The suite's own
``test_coverage`` then fails for entries that no test matches.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.pytest_plugin import run
from conformance.reporting.expectations import Expectation, missing_ops, read
from conformance.suite.cells import first_cell

_ENTRIES = pytest.StashKey[tuple[Expectation, ...]]()
_MATCHED = pytest.StashKey[set[tuple[Expectation, str]]]()
_DEVICES = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the file."""
    group = parser.getgroup("samebits conformance")
    group.addoption("--expectations", type=Path, default=None, help="the known failures")


def file(config: pytest.Config) -> Path | None:
    """Returns the file that the command line names, or else the file of the adapter."""
    path: Path | None = config.getoption("--expectations")
    return path or run.implementation(config).expectations


def entries(config: pytest.Config) -> tuple[Expectation, ...]:
    """Returns the entries of the file that hold for the versions under test."""
    if _ENTRIES not in config.stash:
        path, versions = file(config), run.implementation(config).versions()
        every = read(path) if path else ()
        config.stash[_ENTRIES] = tuple(entry for entry in every if entry.holds(versions))
    return config.stash[_ENTRIES]


def matched(config: pytest.Config) -> set[tuple[Expectation, str]]:
    """Returns pairs of an entry and an id in it, for each id that a test matched."""
    return config.stash[_MATCHED]


def devices(config: pytest.Config) -> set[str]:
    """Returns the devices of the cells of a run."""
    return config.stash[_DEVICES]


@pytest.hookimpl(tryfirst=True)  # before -k removes tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that match an entry."""
    ids_matched = config.stash.setdefault(_MATCHED, set())
    devices_collected = config.stash.setdefault(_DEVICES, set())
    missing = missing_ops(entries(config))
    for item in items:
        callspec = getattr(item, "callspec", None)
        cell = first_cell(callspec.params) if callspec else None
        if cell is not None:
            devices_collected.add(cell.device)
        if cell is not None and cell.op in missing:
            item.add_marker(pytest.mark.skip(reason=f"{cell.op} is missing: {missing[cell.op]}"))
        for entry in entries(config):
            ids = entry.matches(item.name, cell.device if cell else None)
            ids_matched.update((entry, id) for id in ids)
            if ids and entry.outcome == "fail":
                item.add_marker(pytest.mark.xfail(reason=entry.reason, strict=entry.strict))
            elif ids and entry.outcome == "skip":
                item.add_marker(pytest.mark.skip(reason=entry.reason))
