"""Calls of conv_transpose2d."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases.nn.functional import _convolutions


def samples() -> Iterator[Sample]:
    """Windows that overlap, in two groups."""
    return _convolutions.samples(2, transposed=True)
