"""Calls of gru."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn._recurrent import Net


def samples() -> Iterator[Sample]:
    """Both directions, of two lengths; by a bias that a gate scales."""
    yield Net("gru", 3, 2, 2, 2, biases=True, lengths=(4, 3), wrt=3).sample(
        "both directions and lengths"
    )
