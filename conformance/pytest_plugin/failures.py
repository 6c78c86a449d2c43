"""Adds to each failure the row, a command that repeats the test, and the files to edit.

The text goes wherever pytest's report of the failure goes: to the terminal, and from the workers of
pytest-xdist.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

import pytest

import spec
from conformance.cases.table import module_of
from conformance.pytest_plugin import run
from conformance.suite.cells import Cell, to_edit
from conformance.suite.promise import Promise
from spec import english

#: The section of pytest's report of a failure that has the text.
SECTION = "what this is about"
#: The subject of a test: a call, several calls of one row, or a promise.
Subject: TypeAlias = Cell | Promise | Sequence[Cell]
_PROMISES = "conformance.promises"


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
    callspec = getattr(item, "callspec", None)
    subject = _subject(callspec.params) if callspec else None
    if report.failed and subject is not None:
        text = "\n".join(explained(subject, item.nodeid, item.config))
        report.sections.append((SECTION, text))
    return report


def _subject(params: Mapping[str, object]) -> Subject | None:
    """Returns the parameter of a test that is about a row, or None."""
    for value in params.values():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, (Cell, Promise)):
            return first if first is value else cast("list[Cell]", value)
    return None


def explained(subject: Subject, test: str, config: pytest.Config) -> Iterator[str]:
    """Yields lines of text: the row, the command that repeats the test, and the files to edit.

    Args:
        subject: A call, several calls of one row, or a promise.
        test: The id of the test, with its parameters in brackets.
        config: The configuration of the run that failed.
    """
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
