"""Calls of mode."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases._picks import picks, ties
from spec import oracles


def samples() -> Iterator[Sample]:
    """Of columns with many equal elements; in one of them most are NaNs, which equal nothing."""
    for name in ("floating", "integer"):
        x = ties(name, nans=2)
        yield picks(name, lambda ns, x: ns.mode(x, 0), x, oracles.most_frequent)
