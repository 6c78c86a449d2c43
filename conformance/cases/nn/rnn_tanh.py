"""Calls of rnn_tanh."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn._recurrent import Net


def samples() -> Iterator[Sample]:
    """One direction, without biases."""
    yield Net("rnn_tanh", 1, 3, 3, 1, biases=False, lengths=None, wrt=0).sample(
        "weights of the input"
    )
