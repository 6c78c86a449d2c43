"""The pytest plugin of the suite that says, of each failure, what to read, to run and to edit."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import shlex
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import spec
from conformance import plugin
from conformance.cells import Cell
from conformance.implementation import resolve
from conformance.promise import Promise

#: What cannot stand in an expression of ``-k``; and what stands there for something else.
_NO_WORD = re.compile(r"[^\w:+.\[\]\\/-]+")
_OPERATORS = ("and", "or", "not")
_ROOT = Path(spec.__file__).parents[1]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after what is expected to fail has been excused
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failure what its reader needs; it goes wherever reports go."""
    made = yield
    given = getattr(item, "callspec", None)
    params = given.params.values() if given else ()
    tried = next((value for value in params if isinstance(value, (Cell, Promise))), None)
    if made.failed and tried is not None:
        text = "\n".join(explained(tried, item.name, item.config))
        made.sections.append(("what this is about", text))
    return made


def explained(tried: Cell | Promise, name: str, config: pytest.Config) -> Iterator[str]:
    """What was tried, how to try it alone, and what may have to be edited, as lines of text.

    Args:
        tried: What a test was given.
        name: The test's name, with what it was given in brackets.
        config: That of the run that failed.
    """
    namespace = plugin.implementation(config).namespace
    again = f"again: {_command(tried, name, config)}"
    if isinstance(tried, Cell):
        yield from _about(tried)
        yield again
        yield from edits(tried.row, tried.op, namespace)
        yield f"       {_module('cases', tried.op)}, if the sample is wrong"
    else:
        row = spec.load().row(tried.row)
        yield f"{row.id}: {row.op}, a row of the kind {row.kind}"
        yield f"says:  {row.says}"
        yield again
        yield from edits(row, row.op, namespace)
        yield f"       {_module('promises', row.op.lower())}, if it is tried wrongly"


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


def _command(tried: Cell | Promise, name: str, config: pytest.Config) -> str:
    """The command that runs one test as it was run, and no other."""
    device = config.getoption("--device") or plugin.implementation(config).devices()[0]
    words = ["python", "-m", "conformance", "run", "--device", device]
    if isinstance(tried, Cell):
        words += ["--profile", tried.profile]
    if config.getoption("--namespace") != "impl":
        words += ["--namespace", config.getoption("--namespace")]
    for option in ("--expectations", "--repeats"):
        value = config.getoption(option)
        words += [option, str(value)] if value is not None else []
    if config.pluginmanager.hasplugin("xdist"):
        words += ["-n", "0"]
    return shlex.join([*words, "-k", selection(name)])


def selection(name: str) -> str:
    """An expression of ``-k`` that means the test of this name.

    Such an expression has no spaces and few signs inside its words: it asks for each piece between.
    """
    pieces = (piece for piece in _NO_WORD.split(name) if piece)
    return " and ".join(piece for piece in pieces if piece not in _OPERATORS)


def edits(row: spec.Row | None, op: str, namespace: Any) -> Iterator[str]:
    """The places of an op and its row, one of which may be wrong, as lines of text.

    Args:
        row: The row; None where none lists the call.
        op: Dotted name.
        namespace: The ops that were tried.
    """
    source = _source(resolve(namespace, op))
    yield f"edit:  {source or f'the implementation of {op}'}, if the implementation is wrong"
    if row is not None:
        yield f"       {_places()[row.id]}, if the row is wrong"
    else:
        of_op = (_places()[row.id] for row in spec.load().select(op=op))
        files = dict.fromkeys(place.rpartition(":")[0] for place in of_op)
        yield f"       {', '.join(files)}, if a row is missing"


def _source(function: Any) -> str | None:
    """The file and line of a function; None where Python does not know them."""
    try:
        own = inspect.unwrap(function)
        return f"{_shown(inspect.getfile(own))}:{inspect.getsourcelines(own)[1]}"
    except (OSError, TypeError, ValueError):
        return None


@functools.cache
def _places() -> Mapping[str, str]:
    """The file and line of each row."""
    folder = Path(spec.__file__).parent / "rows"
    return {
        match[1]: f"{_shown(file)}:{number}"
        for file in sorted(folder.glob("*.toml"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := re.match(r'id\s*=\s*"(\w+)"', line))
    }


def _module(folder: str, op: str) -> str:
    found = importlib.util.find_spec(f"conformance.{folder}.{op}")
    return _shown(found.origin) if found and found.origin else f"conformance/{folder}"


def _shown(file: str | Path) -> str:
    """A path as it is from the top of the checkout; whole where it is not in one."""
    path = Path(file).absolute()
    if (_ROOT / "pyproject.toml").is_file() and path.is_relative_to(_ROOT):
        return path.relative_to(_ROOT).as_posix()
    return str(path)
