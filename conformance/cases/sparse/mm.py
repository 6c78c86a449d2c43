"""Calls of sparse.mm."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Sample
from conformance.cases import _products


def samples() -> Iterator[Sample]:
    """Sparse ones alone."""
    return _products.sparse_samples("sparse.mm", (), (5,))
