"""Samples of mv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cases import _matrix_products
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"mv": tuple(_matrix_products.samples("mv", (), ()))}
