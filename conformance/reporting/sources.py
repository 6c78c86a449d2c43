"""The modules of ops, and the files of rows, that a failure may be about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import spec
from conformance.adapters.base import resolve


def to_edit(row: spec.Row | None, op: str, namespace: Any) -> Iterator[str]:
    """Yields the sources of an op and its row, one of which may be wrong, as lines of text.

    Args:
        row: The row. None where no row lists the call.
        op: Dotted name.
        namespace: The ops under test.
    """
    module = getattr(resolve(namespace, op), "__module__", None) or "the namespace"
    yield f"edit:  {op} in {module}, if the implementation is wrong"
    rows = [row] if row is not None else spec.load().select(op=op)
    files = dict.fromkeys(f"spec/rows/{each.family}.toml" for each in rows)
    state = "missing" if row is None else "wrong"
    yield f"       {', '.join(files)}, if a row is {state}"
