"""Calls of max_pool2d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._greatest import max_samples


def samples() -> Iterator[Sample]:
    """Overlapping windows, equal elements, and windows that share nothing."""
    return max_samples(2)
