"""Samples of mm, mv, bmm and sparse.mm, with dense and with sparse left operands."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from ml_dtypes import bfloat16

from conformance.adapters.base import resolve
from conformance.cases._data import FEW, MANY, Array, indices, values
from conformance.cases._forms import normal, small, spread
from conformance.cases.table import Form, OpInfo, Sample, form
from spec import oracles

_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
_ROWS, _TERMS = 37, 1100
#: The factor of the number of columns in samples that add along columns.
_WIDER = 8


def _samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """Yields the dense and the sparse samples of an op.

    Args:
        op: Dotted name.
        batch: The batch dimensions of the operands.
        columns: The number of columns of the right operand. Empty if it is a vector.
    """
    yield from _dense_samples(op, batch, columns)
    yield from _sparse_samples(op, batch, columns)


def _dense_samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """Yields long sums of products, with and without the environment variable of cuBLAS."""
    shapes = (*batch, _ROWS, _TERMS), (*batch, _TERMS, *columns)
    for wrt, setting in enumerate((":4096:8", "")):
        yield Sample(
            name=f"dense, {_VARIABLE}={setting}",
            facts={"sparse": False, "cublas_workspace_config": setting},
            call=lambda ns, a, b, s=setting: _call(ns, op, s, a, b),
            arrays=tuple(values(shape, np.float32) for shape in shapes),
            ordered=_exact_product,
            # Only mm is also differentiated with the variable unset. It stands for the other ops.
            wrt=wrt if setting or op == "mm" else None,
            expected_gradient=lambda ct, a, b, w=wrt: _gradient(ct, a, b, w),
        )


def _sparse_samples(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Sample]:
    """Yields matrices with many elements in few rows. Some elements share a row and a column.

    The first sample has elements in no order, and is differentiated by the dense operand. The
    second sample has elements sorted by row, and is differentiated by the elements.
    """
    lanes = max([1, *batch])
    row, column = indices((lanes, MANY)), indices((lanes, MANY, 1))[..., 0] * 3 % FEW
    shape = (*batch, FEW, FEW)
    data = values((*batch, MANY), np.float32)
    dense = values((*batch, FEW, *columns), np.float32)
    positions = np.stack([row, column], axis=-1).reshape(*batch, MANY, 2)
    yield _sparse_sample(
        "sparse",
        batch,
        lambda ns, *arrays: _call(ns, op, "", sparse(ns, "coo", arrays[:2], shape), arrays[2]),
        (data, positions, dense),
        (row, column),
        wrt=2,
    )
    # Some rows have no elements.
    sorted_row, ends = np.sort(row, axis=1), np.arange(FEW + 1)
    starts = np.stack([np.searchsorted(lane, ends) for lane in sorted_row]).astype(np.int32)
    wider = tuple(count * _WIDER for count in columns)
    dense = values((*batch, FEW, *wider), np.float32)
    elements = data, column.reshape(data.shape), starts.reshape(*batch, FEW + 1)
    yield _sparse_sample(
        "sparse by row",
        batch,
        lambda ns, *arrays: _call(ns, op, "", sparse(ns, "csr", arrays[:3], shape), arrays[3]),
        (*elements, dense),
        (sorted_row, column),
        wrt=0,
    )


def _sparse_sample(
    name: str,
    batch: tuple[int, ...],
    call: Any,
    arrays: tuple[Array, ...],
    positions: tuple[Array, Array],
    *,
    wrt: int,
) -> Sample:
    """Returns a sample of a sparse matrix.

    Args:
        name: The name of the sample.
        batch: The batch dimensions of the operands.
        call: Calls the op.
        arrays: Its arrays. The first holds the elements, the last is the dense operand.
        positions: The rows and the columns of the elements: [lanes, elements].
        wrt: The position of the array to differentiate with respect to.
    """

    def by_lane(function: Callable[..., Array], data: Array, other: Array) -> Array:
        flat = (part.reshape(-1, *part.shape[len(batch) :]) for part in (data, other))
        out = np.stack([function(*lane) for lane in zip(*positions, *flat, strict=True)])
        return np.asarray(out.reshape(*batch, *out.shape[1:]))

    def product(row: Array, column: Array, data: Array, other: Array) -> Array:
        terms = data.reshape(-1, *(1,) * (other.ndim - 1)) * other[column]
        return oracles.nearest_scatter(np.zeros((FEW, *other.shape[1:]), other.dtype), row, terms)

    def forward(*arrays: Array) -> Array:
        return by_lane(product, arrays[0], arrays[-1])

    def backward(ct: Array, *arrays: Array) -> Array:
        if wrt:
            return by_lane(lambda r, c, d, o: product(c, r, d, o), arrays[0], ct)

        def of_elements(row: Array, column: Array, ct: Array, other: Array) -> Array:
            terms = (ct[row] * other[column]).reshape(MANY, -1).T
            return oracles.nearest(terms)

        return by_lane(of_elements, ct, arrays[-1])

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
        ordered=forward,
        wrt=wrt,
        ordered_gradient=backward,
    )


def _exact_product(a: Array, b: Array) -> Array:
    if b.ndim == 1:
        return np.asarray(_exact_product(a, b[:, None])[:, 0])
    return oracles.nearest_product(a, b, a.dtype)


def sparse(namespace: Any, layout: str, parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Returns a sparse array: JAX's, unless the namespace has a function for its own."""
    make = getattr(namespace, f"sparse_{layout}", None)
    if make is None:
        from jax.experimental import sparse  # noqa: PLC0415  # others do without JAX

        make = {"coo": sparse.BCOO, "csr": sparse.BCSR}[layout]
    return make(parts, shape=shape)


def _call(namespace: Any, op: str, setting: str, left: Any, right: Any) -> Any:
    with mock.patch.dict(os.environ, {_VARIABLE: setting}):
        return resolve(namespace, op)(left, right)


def _gradient(ct: Array, a: Array, b: Array, wrt: int) -> Array:
    ct = ct.astype(np.float64)
    if b.ndim == 1:
        return np.asarray(np.outer(ct, b) if wrt == 0 else ct @ a)
    return np.asarray(ct @ np.swapaxes(b, -1, -2) if wrt == 0 else np.swapaxes(a, -1, -2) @ ct)


def _forms(*shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Iterator[Form]:
    for left, right in shapes:
        yield form(normal(*left), normal(*right))
    left, right = shapes[0]
    for dtype in (np.float16, bfloat16, np.complex64, np.int32):
        yield form(small(left, dtype), small(right, dtype, 1))


def _sparse_form(op: str, batch: tuple[int, ...], columns: tuple[int, ...]) -> Form:
    """Returns the product of a sparse matrix [*batch, 4, 5] some of whose indices repeat."""
    rng, shape = np.random.default_rng(0), (*batch, 4, 5)
    positions = np.stack([rng.integers(0, n, (*batch, 9)) for n in (4, 5)], -1)
    return Form(
        (spread(*batch, 9), positions, spread(*batch, 5, *columns)),
        call=lambda ns, data, at, dense: resolve(ns, op)(
            sparse(ns, "coo", (data, at), shape), dense
        ),
    ).named("sparse", same_bits=False)


OPS = (
    OpInfo(
        "bmm",
        functools.partial(_samples, "bmm", (2,), (5,)),
        lambda: [
            *_forms(((2, 3, 5), (2, 5, 4)), ((0, 3, 5), (0, 5, 4))),
            form(spread(2, 3, 5), spread(2, 5, 2)).named(same_bits=False),
            _sparse_form("bmm", (2,), (2,)),
        ],
    ),
    OpInfo(
        "mm",
        functools.partial(_samples, "mm", (), (5,)),
        lambda: [
            *_forms(((3, 5), (5, 4)), ((1, 1), (1, 1)), ((2, 0), (0, 4)), ((0, 3), (3, 4))),
            form(spread(3, 5), spread(5, 2)).named(same_bits=False),
            _sparse_form("mm", (), (2,)),
        ],
    ),
    OpInfo(
        "mv",
        functools.partial(_samples, "mv", (), ()),
        lambda: [
            *_forms(((3, 5), (5,)), ((3, 0), (0,))),
            form(spread(3, 5), spread(5)).named(same_bits=False),
            _sparse_form("mv", (), ()).having(name=None),
        ],
    ),
    OpInfo(
        "sparse.mm",
        functools.partial(_sparse_samples, "sparse.mm", (), (5,)),
        lambda: [_sparse_form("sparse.mm", (), (2,)).having(name=None)],
    ),
)
