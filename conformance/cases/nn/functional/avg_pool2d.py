"""Calls of avg_pool2d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._averages import avg_samples


def samples() -> Iterator[Sample]:
    """Overlapping windows, and some that share nothing."""
    return avg_samples(2)
