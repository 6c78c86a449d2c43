"""Calls of adaptive_avg_pool1d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._averages import adaptive_samples


def samples() -> Iterator[Sample]:
    """Uneven and even windows, and one."""
    return adaptive_samples(1)
