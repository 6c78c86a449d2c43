"""Samples of mm, mv, bmm and sparse.mm, with dense and with sparse left operands."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
from ml_dtypes import bfloat16

from conformance.adapters.base import resolve
from conformance.cases._data import Array
from conformance.cases._forms import normal, small, spread, unlike_torch
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles

Shape: TypeAlias = tuple[int, ...]
_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
#: The factor of the number of columns in samples that add along columns.
_WIDER = 8


def _samples(op: str, batch: Shape, columns: Shape, d: Draw) -> Iterator[Sample]:
    """Yields the dense and the sparse samples of an op.

    The right operand is a vector if there are no ``columns``.
    """
    yield from _dense_samples(op, batch, columns, d)
    yield from _sparse_samples(op, batch, columns, d)


def _dense_samples(op: str, batch: Shape, columns: Shape, d: Draw) -> Iterator[Sample]:
    """Yields long sums of products, with and without the environment variable of cuBLAS."""
    rows, terms, *others = d.sizes((37, 1100, *columns))
    shapes = (*batch, rows, terms), (*batch, terms, *others)
    for wrt, setting in enumerate((":4096:8", "")):
        yield Sample(
            name=f"dense, {_VARIABLE}={setting}",
            facts={"sparse": False, "cublas_workspace_config": setting},
            call=lambda ns, a, b, s=setting: _call(ns, op, s, a, b),
            arrays=tuple(d.values(shape, np.float32) for shape in shapes),
            ordered=_exact_product,
            # Only mm is also differentiated with the variable unset. It stands for the other ops.
            wrt=wrt if setting or op == "mm" else None,
            expected_gradient=lambda ct, a, b, w=wrt: _gradient(ct, a, b, w),
        )


def _sparse_samples(op: str, batch: Shape, columns: Shape, d: Draw) -> Iterator[Sample]:
    """Yields matrices with many elements in few rows. Some elements share a row and a column.

    The first sample has elements in no order, and is differentiated by the dense operand. The
    second sample has elements sorted by row, and is differentiated by the elements.
    """
    lanes, columns = max([1, *batch]), d.sizes(columns)
    row, column = d.indices((lanes, d.many)), d.indices((lanes, d.many, 1))[..., 0] * 3 % d.few
    shape = (*batch, d.few, d.few)
    data = d.values((*batch, d.many), np.float32)
    dense = d.values((*batch, d.few, *columns), np.float32)
    positions = np.stack([row, column], axis=-1).reshape(*batch, d.many, 2)
    yield _sparse_sample(
        "sparse",
        batch,
        lambda ns, *arrays: _call(ns, op, "", sparse(ns, "coo", arrays[:2], shape), arrays[2]),
        (data, positions, dense),
        (row, column),
        wrt=2,
    )
    # Some rows have no elements.
    sorted_row, ends = np.sort(row, axis=1), np.arange(d.few + 1)
    starts = np.stack([np.searchsorted(lane, ends) for lane in sorted_row]).astype(np.int32)
    wider = tuple(count * _WIDER for count in columns)
    dense = d.values((*batch, d.few, *wider), np.float32)
    elements = data, column.reshape(data.shape), starts.reshape(*batch, d.few + 1)
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
    """Returns a sample of a sparse matrix with elements at ``positions``: [lanes, elements].

    The first array holds the elements, and the last one is the dense operand.
    """

    def by_lane(function: Callable[..., Array], data: Array, other: Array) -> Array:
        count, n = len(positions[0]), len(batch)
        flat = (part.reshape(count, *part.shape[n:]) for part in (data, other))
        out = np.stack([function(*lane) for lane in zip(*positions, *flat, strict=True)])
        return np.asarray(out.reshape(*batch, *out.shape[1:]))

    def product(row: Array, column: Array, data: Array, other: Array) -> Array:
        terms = data.reshape(len(row), *(1,) * (other.ndim - 1)) * other[column]
        return oracles.nearest_scatter(np.zeros_like(other), row, terms)

    def forward(*arrays: Array) -> Array:
        return by_lane(product, arrays[0], arrays[-1])

    def backward(ct: Array, *arrays: Array) -> Array:
        if wrt:
            return by_lane(lambda r, c, d, o: product(c, r, d, o), arrays[0], ct)

        def of_elements(row: Array, column: Array, ct: Array, other: Array) -> Array:
            terms = (ct[row] * other[column]).reshape(len(row), other[0].size).T
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


_M, _B = np.ones((2, 3), np.float32), np.ones((2, 2, 3), np.float32)
_V, _D = np.ones(3, np.float32), np.ones((3, 4), np.float32)


def _coo(positions: Any, *shape: int, dtype: Any = np.float32) -> tuple[Any, ...]:
    """Returns the layout, the parts and the shape of a matrix with ones at some positions."""
    at = np.array(positions, np.int32)
    return "coo", (np.ones(at.shape[:-1], dtype), at), shape or (2, 3)


def _csr(columns: Any, starts: Any) -> tuple[Any, ...]:
    parts = (columns, starts)
    return "csr", (np.ones(2, np.float32), *(np.array(part, np.int32) for part in parts)), (2, 3)


_COO, _CSR = _coo([[0, 2], [1, 0]]), _csr([2, 0], [0, 1, 2])
_MANY = _coo([[[0, 2]], [[1, 0]]], 2, 2, 3)
#: Its elements are rows.
_HYBRID = "coo", (_D[:1, :3], np.zeros((1, 1), np.int32)), (2, 3)


def _sparse_error(
    op: str, error: type[Exception], words: str, left: tuple[Any, ...], right: Any
) -> ErrorInput:
    """Returns a refused product of a sparse matrix."""
    layout, parts, shape = left

    def call(ns: Any, *parts: Any, right: Any) -> Any:
        return resolve(ns, op)(sparse(ns, layout, parts, shape), right)

    return ErrorInput(Form(parts, {"right": right}, call), error, words)


def _errors_of_bmm() -> Iterator[ErrorInput]:
    batch = "input must have three dimensions, but got shape [2, 3]"
    yield refused(RuntimeError, batch, _M, _B)
    words = "mat2 must have three dimensions, but got shape [2, 3]"
    yield refused(RuntimeError, words, _B, _M)
    yield refused(RuntimeError, "of mat2 to be: [2, 3] but got: [2, 2]", _B, _B)
    yield refused(RuntimeError, "of mat2 to be: [2, 3] but got: [1, 2]", _B, _B[:1])
    yield refused(RuntimeError, "float32 != complex64", _B, np.ones((2, 3, 1), np.complex64))
    yield refused(NotImplementedError, "not implemented for bool", _B > 0, np.ones((2, 3, 1), bool))
    yield _sparse_error("bmm", RuntimeError, batch, _COO, _D[None])
    yield _sparse_error("bmm", RuntimeError, "of mat2 to be: [2, 3] but", _MANY, _D[None])
    words = "index 5 is out of bounds for dimension 2 with size 3, at position [1, 0, 1]"
    bad = _coo([[[0, 2]], [[1, 5]]], 2, 2, 3)
    yield _sparse_error("bmm", RuntimeError, words, bad, np.ones((2, 3, 1), np.float32))


def _errors_of_mm() -> Iterator[ErrorInput]:
    words = "input must be a matrix, but got shape [3]; impl.mv mult"
    yield refused(RuntimeError, words, _V, _M)
    words = "mat2 must be a matrix, but got shape [1, 2, 3]; impl."
    yield refused(RuntimeError, words, _M, _B[:1])
    words = "impl.bmm multiplies batches of matrices, once"
    yield refused(RuntimeError, words, _M[None, None], _M)
    yield refused(RuntimeError, "mat2 must be a matrix, but got shape [3]", _M, _V)
    yield refused(RuntimeError, "cannot be multiplied (2x3 and 2x3)", _M, _M)
    words = "the same dtype, but got: float32 != int"
    yield refused(RuntimeError, words, _M, _M.T.astype(int))
    yield refused(NotImplementedError, "not implemented for bool", _M > 0, _M.T > 0)
    yield _sparse_error("mm", RuntimeError, "must have 0 dense dims, but has 1", _HYBRID, _M.T)
    yield _sparse_error("mm", RuntimeError, "shapes cannot be multiplied (2x3 and", _CSR, _D.T)
    words = "at position [1, 1] of the indices of 'input'; allowed are 0 to 2, and 3 for"
    yield _sparse_error("mm", RuntimeError, words, _coo([[0, 0], [1, -1]]), _D)
    for columns, starts, words in (
        ([-1, 0], [0, 1, 2], "-1 is out of bounds for dimension 1"),
        ([0, 0], [1, 1, 2], "indptr of 'input' must start with 0"),
        ([0, 0], [0, 2, 1], "never fall, and end with at most"),
        ([0, 0], [0, 1, 3], "elements, 2, but got [0, 1, 3]"),
    ):
        yield _sparse_error("mm", RuntimeError, words, _csr(columns, starts), _D)


def _errors_of_mv() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "but got shapes [3] and [3]", _V, _V)
    yield refused(RuntimeError, "but got shapes [2, 3] and [2, 3]", _M, _M)
    yield refused(RuntimeError, "size mismatch, got input (2x3), vec (2)", _M, _V[:2])
    yield refused(RuntimeError, "float32 != float16", _M, _V.astype(np.float16))
    yield refused(NotImplementedError, "not implemented for bool", _M > 0, _V > 0)
    words = "input must have 0 dense dims, but has 1"
    yield _sparse_error("mv", RuntimeError, words, _HYBRID, _D[:, 0])
    yield _sparse_error("mv", RuntimeError, "got input (2x3), vec (2)", _CSR, _D[:2, 0])
    bad = _csr([4, 0], [0, 1, 2])
    yield _sparse_error("mv", RuntimeError, "index 4 is out of bounds for dim", bad, _D[:, 0])


def _errors_of_sparse_mm() -> Iterator[ErrorInput]:
    yield refused(TypeError, "'mat1' must be a jax.experimental.sparse.BCOO", _D.T, _D)
    yield refused(TypeError, "or BCSR, not list; mm takes dense matrices", [1.0], _D)
    bools = _coo([[0, 0]], dtype=bool)
    for error, words, left, right in (
        (RuntimeError, "mat2 must be a matrix, but got shape [4]", _COO, _D[0]),
        (RuntimeError, "mat1 must be a matrix, but got shape [2, 2, 3]", _MANY, _D),
        (RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3", _COO, _D.T),
        (RuntimeError, "expected mat1 and mat2 to have", _CSR, _D.astype(np.float16)),
        (RuntimeError, "float32 != int", _COO, _D.astype(int)),
        (NotImplementedError, "implemented for bool", bools, _D > 0),
        (RuntimeError, "mat1 must have 0 dense dims, but has 1", _HYBRID, _D),
        (RuntimeError, "3 is out of bounds for dimension 0", _coo([[3, 0]]), _D),
    ):
        yield _sparse_error("sparse.mm", error, words, left, right)


# PyTorch's matrices of some of these layouts are of other types.
OPS = (
    OpInfo(
        "bmm",
        functools.partial(_samples, "bmm", (2,), (5,)),
        lambda: [
            *_forms(((2, 3, 5), (2, 5, 4)), ((0, 3, 5), (0, 5, 4))),
            form(spread(2, 3, 5), spread(2, 5, 2)).named(same_bits=False),
            _sparse_form("bmm", (2,), (2,)),
        ],
        lambda: unlike_torch(*_errors_of_bmm()),
        lambda jax, a, b: jax.numpy.matmul(a, b),
    ),
    OpInfo(
        "mm",
        functools.partial(_samples, "mm", (), (5,)),
        lambda: [
            *_forms(((3, 5), (5, 4)), ((1, 1), (1, 1)), ((2, 0), (0, 4)), ((0, 3), (3, 4))),
            form(spread(3, 5), spread(5, 2)).named(same_bits=False),
            _sparse_form("mm", (), (2,)),
        ],
        lambda: unlike_torch(*_errors_of_mm()),
        lambda jax, a, b: jax.numpy.matmul(a, b),
    ),
    OpInfo(
        "mv",
        functools.partial(_samples, "mv", (), ()),
        lambda: [
            *_forms(((3, 5), (5,)), ((3, 0), (0,))),
            form(spread(3, 5), spread(5)).named(same_bits=False),
            _sparse_form("mv", (), ()).having(name=None),
        ],
        lambda: unlike_torch(*_errors_of_mv()),
        lambda jax, a, b: jax.numpy.matmul(a, b),
    ),
    OpInfo(
        "sparse.mm",
        functools.partial(_sparse_samples, "sparse.mm", (), (5,)),
        lambda: [_sparse_form("sparse.mm", (), (2,)).having(name=None)],
        lambda: unlike_torch(*_errors_of_sparse_mm()),
        lambda _, data, at, dense: sparse(None, "coo", (data, at), (4, 5)) @ dense,
    ),
)
