"""Samples of sparse.mm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cases import _matrix_products
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"sparse.mm": tuple(_matrix_products.sparse_samples("sparse.mm", (), (5,)))}
