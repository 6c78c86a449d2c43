"""Samples of pad and interpolate: weighted sums of elements, one dimension after another."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from conformance.cases._data import Array
from conformance.suite.sample import Call, Sample
from spec import FactValue, oracles

#: For each element along a dimension of the result, the indices that it reads and their weights.
Reads: TypeAlias = list[dict[int, float]]


def copies(indices: list[int]) -> Reads:
    """Returns the reads of a result that copies elements."""
    return [{index: 1.0} for index in indices]


def separable_sample(
    name: str,
    call: Call,
    x: Array,
    reads: list[Reads],
    divisor: Array | None = None,
    **facts: FactValue,
) -> Sample:
    """Returns a sample that reads the last dimensions of ``x``, and may divide the sums.

    Args:
        name: The name of the sample.
        call: Calls the op.
        x: Its array.
        reads: The reads along each of the last dimensions.
        divisor: An array of the shape of the sums. None if the sums are not divided.
        **facts: The facts of the call besides its dtype and its number of dimensions.
    """
    counts = np.ones(1) if divisor is None else divisor
    forward = [_matrix(along, n) for along, n in zip(reads, x.shape[-len(reads) :], strict=True)]
    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "input_ndim": x.ndim,
            **facts,
        },
        call=call,
        arrays=(x,),
        expected=lambda x: _along_each(x, forward) / counts,
        wrt=0,
        expected_gradient=lambda ct, x: _along_each(ct / counts, [m.T for m in forward]),
        ordered_gradient=lambda ct, x: _ordered_gradient(ct, x, forward, counts),
    )


def _matrix(along: Reads, size: int) -> Array:
    matrix = np.zeros((len(along), size))
    for row, read in zip(matrix, along, strict=True):
        for index, weight in read.items():
            row[index] += weight
    return matrix


def _along_each(x: Array, matrices: list[Array]) -> Array:
    """Applies a matrix to each of the last dimensions, in float64."""
    out = np.asarray(x).astype(np.float64)
    for axis, matrix in enumerate(matrices, x.ndim - len(matrices)):
        out = np.moveaxis(np.tensordot(matrix, out, (1, axis)), 0, axis)
    return out


def _ordered_gradient(ct: Array, x: Array, forward: list[Array], counts: Array) -> Array:
    """Multiplies by reciprocals, then adds exactly, the first dimension first."""
    out = ct.astype(np.float32)
    if counts.size > 1:
        out = out * (1 / counts).astype(np.float32)
    for axis, matrix in enumerate(forward, ct.ndim - len(forward)):
        along = np.moveaxis(out, axis, 0)
        factors = matrix.astype(np.float32).reshape(*matrix.shape, *(1,) * (ct.ndim - 1))
        sums = [
            oracles.nearest((along * factors[:, i])[matrix[:, i] != 0])
            for i in range(matrix.shape[1])
        ]
        out = np.moveaxis(np.stack(sums), 0, axis)
    return out.astype(x.dtype)
