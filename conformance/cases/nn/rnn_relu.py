"""Calls of rnn_relu."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn._recurrent import Net


def samples() -> Iterator[Sample]:
    """Both directions."""
    yield Net("rnn_relu", 1, 3, 3, 2, biases=True, lengths=None, wrt=1).sample("both directions")
