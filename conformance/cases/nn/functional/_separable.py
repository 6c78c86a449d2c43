"""Calls of pad and interpolate: sums over what each element reads, one dimension at a time."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from conformance.case import Call, Sample
from conformance.cases._data import Array
from spec import FactValue, oracles

#: For each element along a dimension of the result: the positions it reads, and their weights.
Reads: TypeAlias = list[dict[int, float]]


def copies(positions: list[int]) -> Reads:
    """Elements that are read as they are."""
    return [{position: 1.0} for position in positions]


def separable_sample(
    name: str,
    call: Call,
    x: Array,
    reads: list[Reads],
    divisor: Array | None = None,
    **facts: FactValue,
) -> Sample:
    """A call that reads the last dimensions of ``x``, and divides the sums, if at all."""
    counts = np.ones(1) if divisor is None else divisor
    forward = [_matrix(along, n) for along, n in zip(reads, x.shape[-len(reads) :], strict=True)]
    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "input_ndim": x.ndim,
            "overlapping": any((matrix != 0).sum(0).max() > 1 for matrix in forward),
            **facts,
        },
        call=call,
        arrays=(x,),
        expected=lambda x: _along_each(x, forward) / counts,
        wrt=0,
        expected_pullback=lambda ct, x: _along_each(ct / counts, [m.T for m in forward]),
        ordered_pullback=lambda ct, x: _ordered_pullback(ct, x, forward, counts),
    )


def _matrix(along: Reads, size: int) -> Array:
    matrix = np.zeros((len(along), size))
    for row, read in zip(matrix, along, strict=True):
        for position, weight in read.items():
            row[position] += weight
    return matrix


def _along_each(x: Array, matrices: list[Array]) -> Array:
    """In float64: a matrix applied to each of the last dimensions."""
    out = np.asarray(x).astype(np.float64)
    for axis, matrix in enumerate(matrices, x.ndim - len(matrices)):
        out = np.moveaxis(np.tensordot(matrix, out, (1, axis)), 0, axis)
    return out


def _ordered_pullback(ct: Array, x: Array, forward: list[Array], counts: Array) -> Array:
    """Along the first dimension, then the next; products with reciprocals before."""
    out = ct.astype(np.float32)
    if counts.size > 1:
        out = out * (1 / counts).astype(np.float32)
    for axis, matrix in enumerate(forward, ct.ndim - len(forward)):
        readers = [np.flatnonzero(column) for column in matrix.T]
        index = np.full((len(readers), max(map(len, readers))), -1)
        weight = np.zeros(index.shape)
        for place, outputs in enumerate(readers):
            index[place, : len(outputs)] = outputs
            weight[place, : len(outputs)] = matrix[outputs, place]
        out = np.moveaxis(oracles.window(np.moveaxis(out, axis, 0), index, weight), 0, axis)
    return out.astype(x.dtype)
