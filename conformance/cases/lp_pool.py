"""Samples of lp_pool1d and lp_pool2d."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._average_pooling import SIZES, Reads, lanes, membership, unfolded, windows
from conformance.cases._data import Array
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {f"nn.functional.lp_pool{dims}d": tuple(_lp_pool(dims)) for dims in (1, 2)}


def _lp_pool(dims: int) -> Iterator[Sample]:
    """Yields squares and maxima of windows that overlap, and cubes of windows that do not."""
    name, sizes = f"lp_pool{dims}d", SIZES[dims]
    # No two elements have the same magnitude, so that the maximum is one element.
    count = 6 * int(np.prod(sizes))
    magnitudes = (1 + np.random.default_rng(dims).permutation(count)) / count
    x: Array = magnitudes.astype(np.float32).reshape(2, 3, *sizes)
    signed = x * np.where(np.indices(x.shape).sum(0) % 3, np.float32(1), np.float32(-1))
    for label, power, array, kernel, stride in (
        ("squares", 2, signed, 5, 2),
        ("cubes", 3.0, x[0], 2, 2),
        # The gradient of 65 taps or more is a scatter on every device.
        ("greatest", float("inf"), signed, 70 if dims == 1 else 9, 1),
    ):
        reads = [windows(n, kernel, stride, 0, (n - kernel) // stride + 1) for n in sizes]
        yield Sample(
            name=label,
            facts={"dtype": "floating", "input_ndim": array.ndim},
            call=lambda ns, x, p=power, k=kernel, s=stride: getattr(ns.nn.functional, name)(
                x, p, k, s
            ),
            arrays=(array,),
            expected=functools.partial(_norm, reads=reads, power=power),
            wrt=0,
            expected_gradient=functools.partial(_gradient, reads=reads, power=power),
        )


def _norm(x: Array, reads: list[Reads], power: float) -> Array:
    rows, member = lanes(x, reads), membership(reads, x)
    if np.isinf(power):
        out = np.where(member > 0, np.abs(rows)[:, None], 0).max(-1)
    else:
        out = (rows**power @ member.T) ** (1 / power)
    return unfolded(out, x, reads)


def _gradient(ct: Array, x: Array, reads: list[Reads], power: float) -> Array:
    rows, member = lanes(x, reads), membership(reads, x)
    if np.isinf(power):
        index = np.where(member > 0, np.abs(rows)[:, None], 0).argmax(-1)
        derivatives = np.eye(member.shape[1])[index] * np.sign(rows)[:, None]
    else:
        norms = lanes(_norm(x, reads, power), reads)
        derivatives = member * (rows[:, None] / norms[..., None]) ** (power - 1)
    gradient = np.einsum("no,noi->ni", lanes(ct, reads), derivatives)
    return np.asarray(gradient.reshape(x.shape))
