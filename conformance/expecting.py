"""The pytest plugin of the suite that holds a run against a file of expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import plugin
from conformance.cells import Cell
from conformance.expectations import Expectation, missing_ops, read

_ENTRIES = pytest.StashKey[tuple[Expectation, ...]]()
_MATCHED = pytest.StashKey[set[tuple[Expectation, str]]]()
_DEVICES = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the file."""
    group = parser.getgroup("samebits conformance")
    group.addoption("--expectations", type=Path, default=None, help="what is known to fail")


def file(config: pytest.Config) -> Path | None:
    """The file that was asked for, or that of the implementation."""
    asked: Path | None = config.getoption("--expectations")
    return asked or plugin.implementation(config).expectations


def entries(config: pytest.Config) -> tuple[Expectation, ...]:
    """The entries of the file that hold for the versions that are tried."""
    if _ENTRIES not in config.stash:
        path, versions = file(config), plugin.implementation(config).versions()
        every = read(path) if path else ()
        config.stash[_ENTRIES] = tuple(entry for entry in every if entry.holds(versions))
    return config.stash[_ENTRIES]


def matched(config: pytest.Config) -> set[tuple[Expectation, str]]:
    """The ids that meant some test, with their entries."""
    return config.stash[_MATCHED]


def devices(config: pytest.Config) -> set[str]:
    """The devices of the cells that are tried."""
    return config.stash[_DEVICES]


@pytest.hookimpl(tryfirst=True)  # before -k takes tests away
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that entries mean."""
    found = config.stash.setdefault(_MATCHED, set())
    there = config.stash.setdefault(_DEVICES, set())
    missing = missing_ops(entries(config))
    for item in items:
        given = getattr(item, "callspec", None)
        cell = given.params.get("cell") if given else None
        cell = cell if isinstance(cell, Cell) else None  # pytest has its own where there is none
        if cell is not None:
            there.add(cell.device)
        if cell is not None and cell.op in missing:
            item.add_marker(pytest.mark.skip(reason=f"{cell.op} is missing: {missing[cell.op]}"))
        for entry in entries(config):
            ids = entry.matches(item.name, cell.device if cell else None)
            found.update((entry, id) for id in ids)
            if ids and entry.outcome == "fail":
                item.add_marker(pytest.mark.xfail(reason=entry.reason, strict=entry.strict))
            elif ids and entry.outcome == "skip":
                item.add_marker(pytest.mark.skip(reason=entry.reason))
