"""The files and lines of ops, rows, samples and promises that a failure may be about."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import spec
from conformance.adapters.base import resolve
from conformance.cases.table import module_of
from conformance.suite.promise import family_of

_ROOT = Path(spec.__file__).parents[1]


def to_edit(row: spec.Row | None, op: str, namespace: Any) -> Iterator[str]:
    """Yields the sources of an op and its row, one of which may be wrong, as lines of text.

    Args:
        row: The row. None where no row lists the call.
        op: Dotted name.
        namespace: The ops under test.
    """
    source = _source(resolve(namespace, op))
    yield f"edit:  {source or f'the implementation of {op}'}, if the implementation is wrong"
    if row is not None:
        yield f"       {of_rows()[row.id]}, if the row is wrong"
    else:
        lines = (of_rows()[row.id] for row in spec.load().select(op=op))
        files = dict.fromkeys(line.rpartition(":")[0] for line in lines)
        yield f"       {', '.join(files)}, if a row is missing"


def _source(function: Any) -> str | None:
    """Returns the file and line of a function. None where Python does not know them."""
    try:
        unwrapped = inspect.unwrap(function)
        return f"{_shown(inspect.getfile(unwrapped))}:{inspect.getsourcelines(unwrapped)[1]}"
    except (OSError, TypeError, ValueError):
        return None


def of_rows() -> Mapping[str, str]:
    """Returns the file and line of each row."""
    return {row: f"{_shown(file)}:{number}" for row, (file, number) in _lines_of_rows().items()}


@functools.cache
def _lines_of_rows() -> Mapping[str, tuple[Path, int]]:
    folder = Path(spec.__file__).parent / "rows"
    return {
        match[1]: (file, number)
        for file in sorted(folder.rglob("*.toml"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := re.match(r'id\s*=\s*"(\w+)"', line))
    }


def module(package: str, op: str) -> str:
    """Returns the file with the samples or promises of an op.

    Args:
        package: ``cases`` or ``promises``.
        op: Dotted name.
    """
    name = f"conformance.promises.{family_of(op)}" if package == "promises" else module_of(op)
    file = importlib.util.find_spec(name) if name else None
    return _shown(file.origin) if file and file.origin else f"conformance/{package}"


def _shown(file: str | Path) -> str:
    """Returns a path relative to the checkout. Outside a checkout it stays whole."""
    path = Path(file).absolute()
    if (_ROOT / "pyproject.toml").is_file() and path.is_relative_to(_ROOT):
        return path.relative_to(_ROOT).as_posix()
    return str(path)
