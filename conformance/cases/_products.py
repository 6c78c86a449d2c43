"""Calls of mm, mv and bmm, with dense and with sparse left operands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from jax.experimental.sparse import BCOO, BCSR

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, indices, values
from conformance.implementation import resolve
from spec import oracles

_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
_ROWS, _TERMS = 37, 1100
#: Times as many columns where sums along them are tried.
_WIDER = 8


def dense_samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """Chains of products, with and without the environment variable that cuBLAS reads."""
    shapes = (*batch, _ROWS, _TERMS), (*batch, _TERMS, *columns)
    for wrt, setting in enumerate((":4096:8", "")):
        yield Sample(
            name=f"dense, {_VARIABLE}={setting}",
            facts={
                "dtype": "floating",
                "input_ndim": len(batch) + 2,
                "sparse": False,
                "cublas_workspace_config": setting,
            },
            call=lambda ns, a, b, s=setting: _call(ns, op, s, a, b),
            arrays=tuple(values(shape, np.float32) for shape in shapes),
            expected=lambda a, b: a.astype(np.float64) @ b,
            # The gradients of one op stand for those of the others.
            wrt=wrt if setting or op == "mm" else None,
            expected_pullback=lambda ct, a, b, w=wrt: _gradient(ct, a, b, w),
        )


def sparse_samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """Many elements of few rows, some of them of one position, in two layouts.

    In no order, with the gradient of the dense operand; and by row, with that of the elements.
    """
    lanes = max([1, *batch])
    row, column = indices((lanes, MANY)), indices((lanes, MANY, 1))[..., 0] * 3 % FEW
    shape = (*batch, FEW, FEW)
    data = values((*batch, MANY), np.float32)
    dense = values((*batch, FEW, *columns), np.float32)
    places = np.stack([row, column], axis=-1).reshape(*batch, MANY, 2)
    yield _sparse_sample(
        "sparse",
        batch,
        lambda ns, *own: _call(ns, op, "", _sparse(ns, "coo", own[:2], shape), own[2]),
        (data, places, dense),
        (row, column),
        wrt=2,
    )
    # Not of every row are there elements.
    by_row, ends = np.sort(row, axis=1), np.arange(FEW + 1)
    starts = np.stack([np.searchsorted(lane, ends) for lane in by_row]).astype(np.int32)
    more = tuple(count * _WIDER for count in columns)
    dense = values((*batch, FEW, *more), np.float32)
    stored = data, column.reshape(data.shape), starts.reshape(*batch, FEW + 1)
    yield _sparse_sample(
        "sparse by row",
        batch,
        lambda ns, *own: _call(ns, op, "", _sparse(ns, "csr", own[:3], shape), own[3]),
        (*stored, dense),
        (by_row, column),
        wrt=0,
    )


def _sparse_sample(
    name: str,
    batch: tuple[int, ...],
    call: Any,
    arrays: tuple[Array, ...],
    places: tuple[Array, Array],
    *,
    wrt: int,
) -> Sample:
    """Of elements, the first array, at ``places`` [lanes, elements], and the last array."""

    def by_lane(function: Any, data: Array, other: Array) -> Array:
        flat = (part.reshape(-1, *part.shape[len(batch) :]) for part in (data, other))
        out = np.stack([function(*lane) for lane in zip(*places, *flat, strict=True)])
        return np.asarray(out.reshape(*batch, *out.shape[1:]))

    def product(row: Array, column: Array, data: Array, other: Array) -> Array:
        terms = data.reshape(-1, *(1,) * (other.ndim - 1)) * other[column]
        return oracles.panel(np.zeros((FEW, *other.shape[1:]), other.dtype), row, terms)

    def forward(*arrays: Array) -> Array:
        return by_lane(product, arrays[0], arrays[-1])

    def backward(ct: Array, *arrays: Array) -> Array:
        if wrt:
            return by_lane(lambda r, c, d, o: product(c, r, d, o), arrays[0], ct)

        def element(row: Array, column: Array, ct: Array, other: Array) -> Array:
            terms = (ct[row] * other[column]).reshape(MANY, -1).T
            total = oracles.panel(np.zeros((1, MANY), ct.dtype), np.zeros(len(terms), int), terms)
            return np.asarray(total[0])

        return by_lane(element, ct, arrays[-1])

    def wide(function: Any) -> Any:
        def run(*arrays: Array) -> Array:
            floats = (a if a.dtype.kind == "i" else a.astype(np.float64) for a in arrays)
            return np.asarray(function(*floats))

        return run

    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "input_ndim": len(batch) + 2,
            "sparse": True,
            "cublas_workspace_config": "",
        },
        call=call,
        arrays=arrays,
        expected=wide(forward),
        ordered=forward,
        wrt=wrt,
        expected_pullback=wide(backward),
        ordered_pullback=backward,
    )


def samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """All of an op whose operands have a batch, and whose right operand has columns, or not."""
    yield from dense_samples(op, batch, columns)
    yield from sparse_samples(op, batch, columns)


def _sparse(namespace: Any, layout: str, parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """A sparse array; JAX's, unless the namespace says how its own are made."""
    layouts = {"coo": BCOO, "csr": BCSR}
    make = getattr(namespace, f"sparse_{layout}", layouts[layout])
    return make(parts, shape=shape)


def _call(namespace: Any, op: str, setting: str, left: Any, right: Any) -> Any:
    with mock.patch.dict(os.environ, {_VARIABLE: setting}):
        return resolve(namespace, op)(left, right)


def _gradient(ct: Array, a: Array, b: Array, wrt: int) -> Array:
    ct = ct.astype(np.float64)
    if b.ndim == 1:
        return np.asarray(np.outer(ct, b) if wrt == 0 else ct @ a)
    return np.asarray(ct @ np.swapaxes(b, -1, -2) if wrt == 0 else np.swapaxes(a, -1, -2) @ ct)
