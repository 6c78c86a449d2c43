"""Samples of running sums, products and extremes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import DTYPES, Array, written
from conformance.cases._forms import (
    BOOLS,
    COMPLEX,
    EVERY_DTYPE,
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    TWENTY,
    TWENTY_APART,
    TWENTY_FACTORS,
    V,
    near_one,
    small,
)
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles


def _extremes(op: str, extreme: np.ufunc, d: Draw) -> Iterator[Sample]:
    """Yields indices for each dtype, of columns with many equal elements; values and gradient."""
    for name, dtype in DTYPES.items():
        x = np.round(d.values((d.many, d.columns), np.float32)).astype(dtype)
        if name == "floating":
            x[d.many // 2 :, 1:][:1] = np.nan
        yield Sample(
            name=name,
            call=lambda ns, x: tuple(getattr(ns, op)(x, 0)),
            arrays=(x,),
            ordered=lambda x: running(x, extreme),
            accept=lambda result, x: np.testing.assert_equal(
                tuple(map(np.asarray, result)), running(x, extreme)
            ),
        )
    yield Sample(
        name="values",
        call=lambda ns, x: getattr(ns, op)(x, 0).values,
        arrays=(np.round(d.values((d.many, d.columns), np.float32)),),
        ordered=lambda x: running(x, extreme)[0],
        wrt=0,
        ordered_gradient=lambda ct, x: _gradient(ct, x, extreme),
    )


def running(x: Array, extreme: np.ufunc) -> tuple[Array, Array]:
    """Returns the extremes so far down the first axis, and the last index of each.

    A NaN is more extreme than any number.
    """
    wide = x.astype(np.float64)
    is_extreme = np.isnan(wide) | (wide == extreme.accumulate(wide, axis=0))
    index = np.arange(len(x), dtype=np.int32).reshape(-1, *[1] * (x.ndim - 1))
    last_index = np.maximum.accumulate(np.where(is_extreme, index, 0), axis=0)
    return np.take_along_axis(x, last_index, axis=0), last_index


def _gradient(ct: Array, x: Array, extreme: np.ufunc) -> Array:
    index = running(x, extreme)[1]
    return written(np.zeros_like(x), [index], ct, lambda x, i: np.take_along_axis(x, i, 0))


def _cumprod(d: Draw) -> Iterator[Sample]:
    """Yields columns of floats, integers and complex numbers. One column contains a zero."""
    floats = np.exp(d.values((d.some, d.columns), np.float32) / 100)
    data = {
        "floating": floats,
        "integer": d.values((d.some, d.columns), np.int32) | 1,
        "complex": floats * np.exp(1j * floats[::-1]).astype(np.complex64),
    }
    wraps = "The dtype stays, and int32 wraps around; PyTorch's result is int64."
    for array in data.values():
        array[len(array) // 2 :, 1:][:1] = 0
    for name, array in data.items():
        yield Sample(
            name=name,
            call=lambda ns, x: ns.cumprod(x, 0),
            arrays=(array,),
            expected=lambda x: np.cumprod(_wide(x), 0, _wide(x).dtype),
            ordered=oracles.doubling if name == "floating" else None,
            wrt=None if name == "integer" else 0,
            expected_gradient=_gradient_of_products,
            choices={"forward": wraps} if name == "integer" else {},
        )


def _wide(x: Array) -> Array:
    if x.dtype.kind == "i":
        return x  # The op wraps integers around, as NumPy does.
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _gradient_of_products(ct: Array, x: Array) -> Array:
    ct, x = _wide(ct), _wide(x)
    before = np.ones_like(x)
    before[1:] = np.cumprod(x, 0)[:-1]
    after = ct.copy()
    for i in range(len(x) - 2, -1, -1):
        after[i] += x[i + 1] * after[i + 1]
    return before * after


def _cumsum(d: Draw) -> Iterator[Sample]:
    """Yields columns of each dtype and of complex numbers, and rows of floats."""
    data = {name: d.values((d.many, d.columns), dtype) for name, dtype in DTYPES.items()}
    data["complex"] = data["floating"] + 1j * data["floating"][::-1]
    for name, array in data.items():
        yield Sample(
            name=name,
            call=lambda ns, x: ns.cumsum(x, 0),
            arrays=(array,),
            expected=lambda x: np.cumsum(x.astype(np.complex128), 0),
            ordered=None if name == "integer" else oracles.nearest_running,
            wrt=None if name == "integer" else 0,
            ordered_gradient=lambda ct, x: oracles.nearest_running(ct[::-1])[::-1],
        )
    yield Sample(
        name="rows",
        call=lambda ns, x: ns.cumsum(x, -1),
        arrays=(d.values((2, d.many), np.float32),),
        ordered=lambda x: oracles.nearest_running(x.T).T,
    )


def _logcumsumexp(d: Draw) -> Iterator[Sample]:
    """Yields columns of real and of complex numbers."""
    real = d.values((d.some, d.columns), np.float32) * 5
    real[3:-1, 1:][:1] = -np.inf
    turned = real[::-1] + 1j * real.clip(-3, 3) / 3
    for name, x in {"floating": real, "complex": turned.astype(np.complex64)}.items():
        yield Sample(
            name=name,
            call=lambda ns, x: ns.logcumsumexp(x, 0),
            arrays=(x,),
            expected=_logarithms,
            wrt=0 if name == "floating" else None,  # the complex gradient compiles slowly
            expected_gradient=_gradient_of_logarithms,
        )


def _logarithms(x: Array) -> Array:
    return np.asarray(np.log(np.cumsum(np.exp(_wide(x)), 0)))


def _gradient_of_logarithms(ct: Array, x: Array) -> Array:
    shares = _wide(ct) / np.cumsum(np.exp(_wide(x)), 0)
    return np.asarray(np.exp(_wide(x)) * np.cumsum(shares[::-1], 0)[::-1])


_SHAPES: Sequence[tuple[tuple[int, ...], int]] = (
    ((2, 3, 4), 1),
    ((3, 5), 0),
    ((), 0),
    ((4,), -1),
    ((2, 1, 3, 2), -2),
    ((2, 2, 3, 1, 2), 2),
)


def _errors_of_logarithms() -> Iterator[ErrorInput]:
    yield refused(NotImplementedError, "int32", np.ones(2, np.int32), 0)
    yield refused(NotImplementedError, "bool", BOOLS, 0)


def _forms(
    dtypes: Sequence[Any], tried: Array, *, has_zeros: bool = False, same_bits: bool = True
) -> Iterator[Form]:
    for shape, dim in _SHAPES:
        x = np.array(near_one(shape) * 2)
        if has_zeros and x.size > 3:
            x.reshape(-1)[[1, -1]] = 0
        yield form(x, dim)
    if np.complex64 in dtypes:
        yield form(near_one((3, 5), np.complex64), 1)
    for dtype in dtypes:
        if dtype is not np.complex64:
            yield form(small((5, 3), dtype), 1)
    yield form(tried, 0).named(same_bits=same_bits)


def _converted() -> Iterator[Form]:
    """Yields calls that convert the input to another dtype first."""
    for dtype, numbers, to in (
        (np.float32, [1.6, -2.5, 3.2], np.int32),
        (np.int32, [3, 100, 5], np.int8),
        (np.int32, [3, 100, 5], np.float32),
        (np.float32, [0.1, 0.2, 3.0], np.float16),
        (np.float32, [0.1, 0.2, 3.0], np.complex64),
        (bool, [True, True, False], np.float32),
    ):
        yield form(np.array(numbers, dtype), 0, dtype=to).having(torch_gradient=False)


def _at_the_ends() -> Form:
    """Returns logarithms of sums of infinities, NaNs and numbers of many sizes."""
    rows = [[INF, 1, 2], [-INF, -INF, 1], [INF, -INF, 0], [NAN, 1, 2], [1, NAN, INF], [-INF] * 3]
    rows += [[88, 89, 90], [-200, -300, 5], [1, INF, -INF]]
    return form(np.array(rows, np.float32), 1).having(torch_gradient=False)


OPS = (
    *(
        OpInfo(
            op,
            functools.partial(_extremes, op, extreme),
            functools.partial(_forms, [narrow, *INTEGERS, bool], TWENTY_APART),
            lambda: [refused(NotImplementedError, "complex64", COMPLEX, 0)],
            lambda jax, x, op=op: getattr(jax.lax, op)(x, axis=0),
        )
        for op, extreme, narrow in (
            ("cummax", np.maximum, np.float16),
            ("cummin", np.minimum, bfloat16),
        )
    ),
    OpInfo(
        "cumprod",
        _cumprod,
        lambda: [
            *_forms(EVERY_DTYPE, TWENTY_FACTORS, has_zeros=True, same_bits=False),
            *_converted(),
        ],
        lambda: [refused(NotImplementedError, "bool", V, 0, dtype=bool)],
        lambda jax, x: jax.numpy.cumprod(x, axis=0),
    ),
    OpInfo(
        "cumsum",
        _cumsum,
        lambda: [*_forms(EVERY_DTYPE, TWENTY), *_converted()],
        lambda: [refused(NotImplementedError, "bool", V, 0, dtype=bool)],
        lambda jax, x: jax.numpy.cumsum(x, axis=0),
    ),
    # XLA's exponentials differ by a unit in the last place between programs.
    OpInfo(
        "logcumsumexp",
        _logcumsumexp,
        lambda: [*_forms(FLOATS, TWENTY_FACTORS, same_bits=False), _at_the_ends()],
        _errors_of_logarithms,
        lambda jax, x: jax.lax.cumlogsumexp(x, axis=0),
    ),
)
