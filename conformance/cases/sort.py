"""Calls of sort."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases._data import MANY
from conformance.cases._picks import picks, ties
from spec import oracles


def samples() -> Iterator[Sample]:
    """Columns with many equal elements, in both directions."""
    yield picks(
        "floating",
        lambda ns, x: ns.sort(x, 0, stable=True),
        ties("floating", nans=MANY // 8),
        oracles.stable_sort,
    )
    yield picks(
        "narrow",
        lambda ns, x: ns.sort(x, 0, descending=True),
        ties("narrow", nans=MANY // 8),
        lambda x: oracles.stable_sort(x, descending=True),
    )
