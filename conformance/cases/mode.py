"""Calls of mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import spec
from conformance.case import Sample
from conformance.cases._picks import picks, ties
from spec import oracles

_NANS: dict[spec.Direction, str] = {
    "forward": "No NaN equals another; PyTorch does not say what the mode of a NaN is."
}


def samples() -> Iterator[Sample]:
    """Of columns with many equal elements; in one of them most are NaNs, which equal nothing."""
    for name in ("floating", "integer"):
        x = ties(name, nans=2)
        sample = picks(name, lambda ns, x: ns.mode(x, 0), x, oracles.most_frequent)
        yield dataclasses.replace(sample, own=_NANS if name == "floating" else {})
