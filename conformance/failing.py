"""The pytest plugin of the suite that says, of each failure, what to read, to run and to edit."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, cast

import jax
import pytest

import spec
from conformance import places, plugin
from conformance.cells import Cell, cells
from conformance.promise import Promise

#: The section of pytest's report of a failure that has it.
SECTION = "what this is about"
#: What cannot stand in an expression of ``-k``; and what stands there for something else.
_NO_WORD = re.compile(r"[^\w:+.\[\]\\/-]+")
_OPERATORS = ("and", "or", "not")
#: What a check is of.
Tried: TypeAlias = Cell | Promise | Sequence[Cell]
_PROMISES = "conformance.promises"
_JAX = Path(jax.__file__).parent


def pytest_configure() -> None:
    """Has an assertion of a promise say what it compared, as those of tests do."""
    if _PROMISES not in sys.modules:  # pytest warns that it is too late
        pytest.register_assert_rewrite(_PROMISES)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after what is expected to fail has been excused
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failure what its reader needs; it goes wherever reports go."""
    if call.excinfo is not None and item.config.option.tbstyle == "short":
        _shorten(call.excinfo)
    made = yield
    given = getattr(item, "callspec", None)
    tried = _tried(given.params) if given else None
    if made.failed and tried is not None:
        text = "\n".join(explained(tried, item.name, item.config))
        made.sections.append((SECTION, text))
    return made


def _tried(params: Mapping[str, object]) -> Tried | None:
    """What of a test's parameters is about a row."""
    for value in params.values():
        some = value[0] if isinstance(value, list) and value else value
        if isinstance(some, (Cell, Promise)):
            return some if some is value else cast("list[Cell]", value)
    return None


def _shorten(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Leaves out of a traceback the frames of JAX, but for the last one, and where JAX traced."""
    entries = [excinfo.tb]
    kept: TracebackType | None = None
    while entries[-1].tb_next is not None:
        entries.append(entries[-1].tb_next)
    for entry in reversed(entries):
        file = entry.tb_frame.f_code.co_filename
        if entry is entries[-1] or not Path(file).is_relative_to(_JAX):
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    excinfo.traceback = type(excinfo.traceback)(kept or excinfo.tb)
    error = excinfo.value
    if type(error.__cause__).__name__ == "JaxStackTraceBeforeTransformation":
        error.__cause__ = None
        error.__suppress_context__ = True


def explained(tried: Tried, name: str, config: pytest.Config) -> Iterator[str]:
    """What was tried, how to try it alone, and what may have to be edited, as lines of text.

    Args:
        tried: What a test was given: a call, several of one row, or a promise.
        name: The test's name, with what it was given in brackets.
        config: That of the run that failed.
    """
    namespace = plugin.implementation(config).namespace
    again = f"again: {_command(tried, name, config)}"
    if isinstance(tried, Promise):
        row = spec.load().row(tried.row)
        yield f"{row.id}: {row.op}, a row of the kind {row.kind}"
        yield f"says:  {row.statement}"
        yield again
        yield from places.to_edit(row, row.op, namespace)
        yield f"       {places.module('promises', row.op.lower())}, if it is tried wrongly"
        return
    calls = [tried] if isinstance(tried, Cell) else tried
    cell = calls[0]
    yield from _about(cell)
    if len(calls) > 1:
        yield f"calls: {', '.join(dict.fromkeys(each.sample.name for each in calls))}"
    yield again
    yield from places.to_edit(cell.row, cell.op, namespace)
    yield f"       {places.module('cases', cell.op)}, if the sample is wrong"


def _about(cell: Cell) -> Iterator[str]:
    row, listed = cell.row, cell.listed
    about = [f"{cell.op}, {cell.direction}, on {cell.device}, under {cell.profile}"]
    about.append(listed or "not listed, so that the mode changes nothing")
    if row is not None and listed == "deterministic":
        about += [f"order {row.order}"] if row.order else []
        about.append(f"guarantee {row.guarantee}")
    yield f"{row.id if row else 'no row'}: {'; '.join(about)}"
    if row is not None:
        yield f"says:  {row.torch}: {row.condition}"
    if cell.instead is not None:
        other = cell.instead.behaviour or "unaffected"
        yield f"but:   {other} is expected of what is tried; {cell.instead.why}"


def _command(tried: Tried, name: str, config: pytest.Config) -> str:
    """The command that runs one test as it was run, and no other."""
    device = config.getoption("--device") or plugin.implementation(config).devices()[0]
    words = ["python", "-m", "conformance", "run", "--device", device]
    # Some checks take one profile alone, which is the cell's.
    profile = tried.profile if isinstance(tried, Cell) else config.getoption("--profile")
    words += ["--profile", profile] if profile else []
    if config.getoption("--namespace") != "impl":
        words += ["--namespace", config.getoption("--namespace")]
    for option in ("--expectations", "--repeats"):
        value = config.getoption(option)
        words += [option, str(value)] if value is not None else []
    if config.pluginmanager.hasplugin("xdist"):
        words += ["-n", "0"]
    return shlex.join([*words, "-k", selection(name)])


def selection(name: str) -> str:
    """An expression of ``-k`` that means the test of this name and of no other cell.

    Such an expression has no spaces and few signs inside its words: it asks for each piece between.
    """
    pieces = _pieces(name)
    wanted = " and ".join(pieces)
    if len(pieces) > 1:
        test = name.partition("[")[0]
        for cell in _cells_with(pieces[1:-1]):
            other = f"{test}[{cell}]"
            if other != name and all(piece in other for piece in pieces):
                odd = next((piece for piece in _pieces(other) if piece not in name), None)
                wanted += f" and not {odd}" if odd else ""
    return wanted


def _cells_with(pieces: Sequence[str]) -> list[str]:
    return [name for name in _names() if all(piece in name for piece in pieces)]


@functools.cache
def _names() -> list[str]:
    return [str(cell) for cell in cells()]


def _pieces(name: str) -> list[str]:
    return [piece for piece in _NO_WORD.split(name) if piece and piece not in _OPERATORS]
