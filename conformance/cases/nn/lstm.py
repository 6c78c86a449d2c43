"""Calls of lstm."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn._recurrent import Net


def samples() -> Iterator[Sample]:
    """Sequences of two lengths, the longer one last, and projections."""
    yield Net("lstm", 4, 3, 2, 1, biases=True, lengths=(2, 4), wrt=1).sample(
        "lengths and projections"
    )
