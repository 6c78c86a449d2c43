"""Calls of fractional_max_pool3d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._greatest import fractional_samples


def samples() -> Iterator[Sample]:
    """Overlapping windows, and equal elements."""
    return fractional_samples(3)
