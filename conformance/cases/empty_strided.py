"""Calls of empty_strided."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases._fresh import makers


def samples() -> Iterator[Sample]:
    """Two kinds of number, column by column."""
    return makers(
        lambda ns, dtype: ns.empty_strided((3, 5), (1, 3), dtype=dtype),
        (3, 5),
        kinds=("floating", "integer"),
    )
