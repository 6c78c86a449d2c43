"""Samples of topk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cases._data import MANY
from conformance.cases._selections import selection, ties
from conformance.suite.sample import Sample
from spec import oracles

_HALF = MANY // 2


def samples() -> Mapping[str, Sequence[Sample]]:
    greatest = selection(
        "floating",
        lambda ns, x: ns.topk(x, 16, 0),
        ties("floating", nans=MANY // 8),
        lambda x: oracles.stable_sort(x, descending=True)[:16],
    )
    lesser_half = selection(
        "integer",
        lambda ns, x: ns.topk(x, _HALF, 0, False),
        ties("integer"),
        lambda x: oracles.stable_sort(x)[:_HALF],
    )
    return {"topk": (greatest, lesser_half)}
