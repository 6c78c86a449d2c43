"""Calls of mm, mv and bmm, with dense and with sparse left operands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from jax.experimental.sparse import BCOO

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, indices, values
from spec import oracles

_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
_ROWS, _TERMS = 37, 1100


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
    """Many elements of few rows, some of them of one position, in no order."""
    lanes = max([1, *batch])
    places = np.stack(
        [indices((lanes, MANY)), indices((lanes, MANY, 1))[..., 0] * 3 % FEW], axis=-1
    ).reshape(*batch, MANY, 2)
    shape = (*batch, FEW, FEW)

    def by_lane(function: Any, data: Array, places: Array, other: Array) -> Array:
        flat = [part.reshape(lanes, *part.shape[len(batch) :]) for part in (data, places, other)]
        out = np.stack([function(d, *p.T, o) for d, p, o in zip(*flat, strict=True)])
        return out.reshape(*batch, *out.shape[1:])

    def forward(data: Array, places: Array, other: Array) -> Array:
        def lane(d: Array, rows: Array, columns: Array, o: Array) -> Array:
            terms = d.reshape(-1, *(1,) * (o.ndim - 1)) * o[columns]
            return oracles.panel(np.zeros((FEW, *o.shape[1:]), o.dtype), rows, terms)

        return by_lane(lane, data, places, other)

    def backward(ct: Array, data: Array, places: Array, other: Array) -> Array:
        del other
        return forward(data, places[..., ::-1], ct)

    def wide(function: Any) -> Any:
        def run(*arrays: Array) -> Array:
            floats = (a if a.dtype.kind == "i" else a.astype(np.float64) for a in arrays)
            return np.asarray(function(*floats))

        return run

    yield Sample(
        name="sparse",
        facts={
            "dtype": "floating",
            "input_ndim": len(batch) + 2,
            "sparse": True,
            "cublas_workspace_config": "",
        },
        call=lambda ns, data, places, other: _call(
            ns, op, "", BCOO((data, places), shape=shape), other
        ),
        arrays=(
            values((*batch, MANY), np.float32),
            places,
            values((*batch, FEW, *columns), np.float32),
        ),
        expected=wide(forward),
        ordered=forward,
        wrt=2,
        expected_pullback=wide(backward),
        ordered_pullback=backward,
    )


def samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """All of an op whose operands have a batch, and whose right operand has columns, or not."""
    yield from dense_samples(op, batch, columns)
    yield from sparse_samples(op, batch, columns)


def _call(namespace: Any, op: str, setting: str, left: Any, right: Any) -> Any:
    with mock.patch.dict(os.environ, {_VARIABLE: setting}):
        return getattr(namespace, op)(left, right)


def _gradient(ct: Array, a: Array, b: Array, wrt: int) -> Array:
    ct = ct.astype(np.float64)
    if b.ndim == 1:
        return np.asarray(np.outer(ct, b) if wrt == 0 else ct @ a)
    return np.asarray(ct @ np.swapaxes(b, -1, -2) if wrt == 0 else np.swapaxes(a, -1, -2) @ ct)
