"""Where the things are that a failure may be about: ops, rows, cases and promises."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import spec
from conformance.implementation import resolve

_ROOT = Path(spec.__file__).parents[1]


def to_edit(row: spec.Row | None, op: str, namespace: Any) -> Iterator[str]:
    """The places of an op and its row, one of which may be wrong, as lines of text.

    Args:
        row: The row; None where none lists the call.
        op: Dotted name.
        namespace: The ops that were tried.
    """
    source = _source(resolve(namespace, op))
    yield f"edit:  {source or f'the implementation of {op}'}, if the implementation is wrong"
    if row is not None:
        yield f"       {of_rows()[row.id]}, if the row is wrong"
    else:
        of_op = (of_rows()[row.id] for row in spec.load().select(op=op))
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
def of_rows() -> Mapping[str, str]:
    """The file and line of each row."""
    folder = Path(spec.__file__).parent / "rows"
    return {
        match[1]: f"{_shown(file)}:{number}"
        for file in sorted(folder.glob("*.toml"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := re.match(r'id\s*=\s*"(\w+)"', line))
    }


def module(folder: str, op: str) -> str:
    """The file of an op in ``conformance.cases`` or ``conformance.promises``."""
    found = importlib.util.find_spec(f"conformance.{folder}.{op}")
    return _shown(found.origin) if found and found.origin else f"conformance/{folder}"


def _shown(file: str | Path) -> str:
    """A path as it is from the top of the checkout; whole where it is not in one."""
    path = Path(file).absolute()
    if (_ROOT / "pyproject.toml").is_file() and path.is_relative_to(_ROOT):
        return path.relative_to(_ROOT).as_posix()
    return str(path)
