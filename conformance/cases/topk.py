"""Calls of topk."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases._data import MANY
from conformance.cases._picks import picks, ties
from spec import oracles


def samples() -> Iterator[Sample]:
    """The few greatest, more than occur once; and the lesser half."""
    half = MANY // 2
    yield picks(
        "floating",
        lambda ns, x: ns.topk(x, 16, 0),
        ties("floating", nans=MANY // 8),
        lambda x: oracles.stable_sort(x, descending=True)[:16],
    )
    yield picks(
        "integer",
        lambda ns, x: ns.topk(x, half, 0, False),
        ties("integer"),
        lambda x: oracles.stable_sort(x)[:half],
    )
