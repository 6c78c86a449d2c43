"""Calls of adaptive_max_pool2d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional._greatest import adaptive_samples


def samples() -> Iterator[Sample]:
    """Windows of several lengths, equal elements, and windows that share nothing."""
    return adaptive_samples(2)
