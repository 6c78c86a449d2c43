"""Calls of max_unpool2d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._unpool import unpool_samples


def samples() -> Iterator[Sample]:
    """A batch, and one example."""
    return unpool_samples(2)
