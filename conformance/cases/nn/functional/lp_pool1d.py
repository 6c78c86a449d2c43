"""Calls of lp_pool1d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._averages import lp_samples


def samples() -> Iterator[Sample]:
    """Squares, cubes, and greatest elements."""
    return lp_samples(1)
