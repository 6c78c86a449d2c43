"""Samples of fractional_max_pool2d and fractional_max_pool3d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import values
from conformance.cases._max_pooling import (
    NANS,
    Reads,
    expected_gradient,
    few_values,
    gradient_in_order,
    indices,
    maxima,
)
from conformance.suite.sample import Sample
from spec import FactValue

#: Sizes, a kernel and output sizes for which many windows share elements.
_SIZES = {
    2: ((11, 13), (4, 5), (7, 9)),
    3: ((5, 6, 9), (2, 3, 4), (3, 3, 5)),
}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        f"nn.functional.fractional_max_pool{dims}d": tuple(_fractional_max_pool(dims))
        for dims in (2, 3)
    }


def _fractional_max_pool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap, among different elements and among equal ones."""
    name, (sizes, kernel, output_size) = f"fractional_max_pool{dims}d", _SIZES[dims]
    random = np.random.default_rng(dims).random((2, 3, dims)).astype(np.float32)

    def windows(channel: int) -> list[Reads]:
        numbers = random.reshape(-1, dims)[channel]
        # In two dimensions, the random number of the last dimension comes first.
        by_dim = numbers[::-1] if dims == 2 else numbers
        return [_windows(*along) for along in zip(sizes, kernel, output_size, by_dim, strict=True)]

    def call(ns: Any, x: Any, u: Any, indices: bool = False) -> Any:
        pool = getattr(ns.nn.functional, name)
        return pool(x, kernel, output_size, None, indices, u)

    facts: dict[str, FactValue] = {"dtype": "floating", "input_ndim": dims + 2}
    yield Sample(
        name="differing",
        facts=facts,
        call=call,
        arrays=(values((2, 3, *sizes), np.float32), random),
        expected=lambda x, u: maxima(x, windows),
        ordered=lambda x, u: maxima(x, windows),
        wrt=0,
        expected_gradient=lambda ct, x, u: expected_gradient(ct, x, windows),
        ordered_gradient=lambda ct, x, u: gradient_in_order(ct, x, windows),
    )
    yield Sample(
        name="equals",
        facts=facts,
        call=lambda ns, x, u: call(ns, x, u, True)[1],
        arrays=(few_values(sizes), random),
        expected=lambda x, u: indices(x, windows),
        ordered=lambda x, u: indices(x, windows).astype(np.int32),
        choices=NANS,
    )


def _windows(size: int, kernel: int, count: int, random: np.float32) -> Reads:
    """Returns windows that begin at random steps, computed in float32."""
    alpha = np.float32(size - kernel) / np.float32(count - 1)
    first = int(random * alpha)
    starts = [int((np.float32(o) + random) * alpha) - first for o in range(count - 1)]
    return [list(range(s, s + kernel)) for s in (*starts, size - kernel)]
