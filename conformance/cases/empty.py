"""Calls of empty."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases._fresh import makers


def samples() -> Iterator[Sample]:
    """One for each kind of number."""
    return makers(lambda ns, dtype: ns.empty(3, 5, dtype=dtype), (3, 5))
