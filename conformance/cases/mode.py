"""Samples of mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import spec
from conformance.cases._selections import selection, ties
from conformance.suite.sample import Sample
from spec import oracles

_NANS: dict[spec.Direction, str] = {
    "forward": "No NaN equals another; PyTorch does not say what the mode of a NaN is."
}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"mode": tuple(_mode())}


def _mode() -> Iterator[Sample]:
    """Yields columns with many equal elements. One is mostly NaNs, which equal nothing."""
    for name in ("floating", "integer"):
        x = ties(name, nans=2)
        sample = selection(name, lambda ns, x: ns.mode(x, 0), x, oracles.most_frequent)
        yield dataclasses.replace(sample, choices=_NANS if name == "floating" else {})
