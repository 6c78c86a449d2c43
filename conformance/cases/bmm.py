"""Samples of bmm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.cases import _matrix_products
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"bmm": tuple(_matrix_products.samples("bmm", (2,), (5,)))}
