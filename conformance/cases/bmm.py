"""Calls of bmm."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases import _products


def samples() -> Iterator[Sample]:
    """Dense ones, and sparse ones."""
    return _products.samples("bmm", (2,), (5,))
