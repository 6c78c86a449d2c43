"""Calls of empty_permuted."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases._fresh import makers


def samples() -> Iterator[Sample]:
    """Two kinds of number, the last dimension but one the innermost."""
    return makers(
        lambda ns, dtype: ns.empty_permuted((2, 3, 5), (0, 2, 1), dtype=dtype),
        (2, 3, 5),
        kinds=("floating", "integer"),
    )
