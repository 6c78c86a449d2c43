"""Marks known failures, and adds to each other failure the row, a command, and the files to edit.

A test that matches an entry of a file of expectations is expected to fail, or is skipped. The
suite's own ``test_coverage`` then fails for entries that no test matches.

The text about a failure goes wherever pytest's report of it goes: to the terminal, and from the
workers of pytest-xdist.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import pytest

import spec
from conformance.cases.table import module_of
from conformance.pytest_plugin import run
from conformance.reporting.expectations import Expectation, missing_ops, read
from conformance.suite.cells import Cell, to_edit
from conformance.suite.promise import Promise
from spec import english

#: The section of pytest's report of a failure that has the text.
SECTION = "what this is about"
#: The subject of a test: a call, several calls of one row, or a promise.
Subject: TypeAlias = Cell | Promise | Sequence[Cell]
_PROMISES = "conformance.promises"
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
        subject = _subject(item)
        first = subject[0] if isinstance(subject, Sequence) else subject
        cell = first if isinstance(first, Cell) else None
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


def pytest_configure() -> None:
    """Makes a failed assertion of a promise print its operands, as an assertion of a test does."""
    if _PROMISES not in sys.modules:  # pytest warns about a module that is imported already
        pytest.register_assert_rewrite(_PROMISES)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: after pytest applied xfail
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the text to the report of a failure."""
    report = yield
    subject = _subject(item)
    if report.failed and subject is not None:
        text = "\n".join(explained(subject, item.nodeid, item.config))
        report.sections.append((SECTION, text))
    return report


def _subject(item: pytest.Item) -> Subject | None:
    """Returns the parameter of a test that is about a row, or None."""
    for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, (Cell, Promise)):
            return first if first is value else cast("list[Cell]", value)
    return None


def explained(subject: Subject, test: str, config: pytest.Config) -> Iterator[str]:
    """Yields lines of text: the row, the command that repeats the test, and the files to edit."""
    namespace = run.implementation(config).namespace
    again = f"again: {_command(subject, test, config)}"
    if isinstance(subject, Promise):
        row = spec.load().row(subject.row)
        yield f"{row.id}: {row.op}, a row of the kind {row.kind}"
        yield f"says:  {row.statement}"
        yield again
        yield from to_edit(row, row.op, namespace)
        yield f"       {subject.keep.__module__}, if it is tried wrongly"
        return
    calls = [subject] if isinstance(subject, Cell) else subject
    cell = calls[0]
    yield from _about(cell)
    if len(calls) > 1:
        yield f"calls: {', '.join(dict.fromkeys(call.sample.name for call in calls))}"
    yield again
    yield from to_edit(cell.row, cell.op, namespace)
    yield f"       {module_of(cell.op)}, if the sample is wrong"


def _about(cell: Cell) -> Iterator[str]:
    row, listed = cell.row, cell.listed
    about = [f"{cell.op}, {cell.direction}, on {cell.device}, under {cell.profile}"]
    about.append(listed or f"not listed; {english.EFFECTS[cell.answer.effect]}")
    if not listed and cell.answer.row is not None:
        about.append(f"decided by {cell.answer.row.id}")
    if row is not None and listed == "deterministic":
        about += [f"order {row.order}"] if row.order else []
        about.append(f"guarantee {row.guarantee}")
    yield f"{row.id if row else 'no row'}: {'; '.join(about)}"
    if row is not None:
        yield f"says:  {row.torch}: {row.condition}"
    if cell.release is not None:
        behaviour = cell.release.behaviour or "unaffected"
        yield f"but:   {behaviour} is expected of the release under test; {cell.release.reason}"


def _command(subject: Subject, test: str, config: pytest.Config) -> str:
    """Returns the command that repeats one test with the options of this run."""
    device = config.getoption("--device") or run.implementation(config).devices()[0]
    words = ["python", "-m", "conformance", "run", "--device", device]
    # Some checks run under one profile alone, so the profile of the cell has to be named.
    profile = subject.profile if isinstance(subject, Cell) else config.getoption("--profile")
    words += ["--profile", profile] if profile else []
    if config.getoption("--namespace") != "impl":
        words += ["--namespace", config.getoption("--namespace")]
    for option in ("--expectations", "--repeats"):
        value = config.getoption(option)
        words += [option, str(value)] if value is not None else []
    if config.pluginmanager.hasplugin("xdist"):
        words += ["-n", "0"]
    return shlex.join([*words, test])
