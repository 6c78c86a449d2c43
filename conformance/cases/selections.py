"""Samples of ops that select elements along a dimension, and return their indices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import spec
from conformance.cases._data import DTYPES, Array
from conformance.cases._forms import (
    BOOLS,
    COMPLEX,
    INF,
    NAN,
    SCALAR,
    TWENTY_APART,
    V,
    normal,
    without_gradient,
)
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles

#: Maps an array of float64 to the indices of the selected elements along the first axis.
Select = Callable[[Array], Array]


def _ties(d: Draw, name: str, *, nans: int = 0) -> Array:
    """Returns two columns with many equal elements, zeros of both signs, and NaNs ``nans`` apart.

    The second column alone has NaNs, and none if ``nans`` is 0.
    """
    x = np.round(d.values((max(d.many, 1), max(d.columns, 1)), np.float32) * 4)
    if name != "integer" and nans:
        x[nans::nans, 1:] = np.nan
    return x.astype(DTYPES[name])


def _selection(
    name: str, call: Callable[..., Any], x: Array, select: Select, **facts: spec.FactValue
) -> Sample:
    """Returns a sample of an op that returns values, and the indices that ``select`` gives.

    Their array may lack the first axis, if the op selects one element of each column.
    """

    def selected(x: Array) -> tuple[Array, Array]:
        index = select(x.astype(np.float64))
        return _taken(x, index), index.astype(np.int32)

    def accept(result: Any, x: Array) -> None:
        """Accepts the expected values, each with the index of any element of this value."""
        elements, index = map(np.asarray, result)
        wide = elements.astype(np.float64)
        np.testing.assert_array_equal(wide, selected(x)[0].astype(np.float64))
        np.testing.assert_array_equal(_taken(x, index).astype(np.float64), wide)
        for column in index.T if index.ndim == x.ndim else ():
            if len(np.unique(column)) < len(column):
                raise AssertionError("an element is picked twice")

    return Sample(
        name=name,
        facts=facts,
        call=lambda ns, x: tuple(call(ns, x)),
        arrays=(x,),
        ordered=selected,
        accept=accept,
    )


def _taken(x: Array, index: Array) -> Array:
    if index.ndim == x.ndim:
        return np.take_along_axis(x, index, 0)
    return np.asarray(np.take_along_axis(x, index[None], 0)[0])


def _argsort(d: Draw) -> Iterator[Sample]:
    yield Sample(
        name="descending",
        call=lambda ns, x: ns.argsort(x, 0, True),
        arrays=(_ties(d, "integer"),),
        ordered=lambda x: oracles.stable_sort(x, descending=True).astype(np.int32),
        accept=_sort_accept,
    )


def _sort_accept(result: Any, x: Array) -> None:
    """Accepts any permutation that sorts."""
    index = np.asarray(result)
    np.testing.assert_array_equal(np.take_along_axis(x, index, 0), np.sort(x, 0)[::-1])
    every_index = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    np.testing.assert_array_equal(np.sort(index, 0), every_index)


def _kthvalue(d: Draw) -> Iterator[Sample]:
    """Yields the middle value of columns with many equal elements, for each dtype."""
    for name, dtype in DTYPES.items():
        yield _selection(
            name,
            lambda ns, x: ns.kthvalue(x, (d.many + 1) // 2 or 1, 0),
            np.round(d.values((max(d.many, 1), max(d.columns, 1)), np.float32)).astype(dtype),
            lambda x: oracles.lowest_index(x, (d.many + 1) // 2 or 1),
        )


#: Maps a column to the rank of its median, from 1.
Rank = Callable[[Array], int]


def _rank(x: Array) -> int:
    """Returns the rank of the median. The median of a column with NaNs is NaN."""
    return len(x) if np.isnan(x).any() else (len(x) + 1) // 2


def _rank_of_numbers(x: Array) -> int:
    return int((~np.isnan(x)).sum() + 1) // 2


def _medians(op: str, rank: Rank, d: Draw) -> Iterator[Sample]:
    """Yields medians of columns with many equal elements, one with NaNs, and of all elements."""

    def call(ns: Any, x: Any, *dim: int) -> Any:
        return getattr(ns, op)(x, *dim)

    def index(x: Array) -> Array:
        return np.array([oracles.lowest_index(column, rank(column)) for column in x.T], int)

    for name in ("floating", "integer"):
        x = _ties(d, name, nans=d.many // 3)
        yield _selection(name, lambda ns, x: call(ns, x, 0), x, index, returns_indices=True)
    # No row lists a call without indices: every device has the same value and the same gradient.
    yield Sample(
        name="all",
        facts={"returns_indices": False},
        call=call,
        arrays=(_ties(d, "floating"),),
        expected=lambda x: np.sort(x, None)[rank(x.ravel()) - 1],
        wrt=0,
        expected_gradient=_shared_gradient,
    )


def _shared_gradient(ct: Array, x: Array) -> Array:
    equal = x == np.sort(x, None)[(x.size + 1) // 2 - 1]
    return np.asarray(ct * equal / equal.sum())


_NANS: dict[spec.Direction, str] = {
    "forward": "No NaN equals another; PyTorch does not say what the mode of a NaN is."
}


def _mode(d: Draw) -> Iterator[Sample]:
    """Yields columns with many equal elements. One is mostly NaNs, which equal nothing."""
    for name in ("floating", "integer"):
        x = _ties(d, name, nans=2)
        sample = _selection(name, lambda ns, x: ns.mode(x, 0), x, oracles.most_frequent)
        yield dataclasses.replace(sample, choices=_NANS if name == "floating" else {})


def _sort(d: Draw) -> Iterator[Sample]:
    for name, descending in (("floating", False), ("narrow", True)):
        yield _selection(
            name,
            lambda ns, x, down=descending: ns.sort(x, 0, descending=down, stable=not down),
            _ties(d, name, nans=d.many // 8),
            functools.partial(oracles.stable_sort, descending=descending),
        )


def _topk(d: Draw) -> Iterator[Sample]:
    yield _selection(
        "floating",
        lambda ns, x: ns.topk(x, min(16, len(x)), 0),
        _ties(d, "floating", nans=d.many // 8),
        lambda x: oracles.stable_sort(x, descending=True)[:16],
    )
    yield _selection(
        "integer",
        lambda ns, x: ns.topk(x, d.many // 2, 0, False),
        _ties(d, "integer"),
        lambda x: oracles.stable_sort(x)[: d.many // 2],
    )


_SELECTED: Sequence[tuple[tuple[int, ...], int]] = (
    ((2, 3, 4), 1),
    ((), -1),
    ((7,), 0),
    ((4, 5), -1),
    ((2, 2, 3, 2, 2), -3),
)


def _differing(*shape: int) -> Array:
    count = int(np.prod(shape))
    return np.random.default_rng(count).permutation(count).reshape(shape).astype(np.float32)


def _forms(
    *arguments: Any, numbers: bool = True, keepdim: bool = True, **keywords: Any
) -> Iterator[Form]:
    """Yields selections along a dimension; ``arguments`` come before it."""
    for shape, dim in _SELECTED:
        if shape or numbers:
            yield form(_differing(*shape), *arguments, dim=dim, **keywords)
    if keepdim:
        for shape, dim in [((2, 3, 4), 1), ((7,), 0)]:
            yield form(_differing(*shape), *arguments, dim=dim, keepdim=True, **keywords)
    for dtype in (np.float16, bfloat16, np.uint8, np.int32):
        yield form(_differing(6, 2).astype(dtype), *arguments, dim=0, **keywords)
    yield form(normal(0, 3), *arguments, dim=1, **keywords)


def _few(dtype: Any, *, nans: bool = True) -> Array:
    """Returns few different numbers; among floats zeros of both signs, infinities and NaNs."""
    rng = np.random.default_rng(0)
    x: Array = rng.integers(0, 4, (9, 6))
    if np.dtype(dtype).kind in "ub":
        return x.astype(dtype)
    x = np.where(x == 3, INF, x) * rng.choice([1, -1], x.shape)
    return np.where((rng.random(x.shape) < 0.1) & nans, NAN, x).astype(dtype)


def _values(
    op: str, *arguments: Any, dtypes: Sequence[Any] = (), nans: bool = True, **keywords: Any
) -> Iterator[Form]:
    """Yields the values of selections from few different numbers, of which any index is right."""

    def call(ns: Any, x: Any) -> Any:
        return getattr(ns, op)(x, *arguments, dim=0, **keywords)[0]

    for dtype in (np.float32, bfloat16, np.uint8, *dtypes):
        yield Form((_few(dtype, nans=nans),), call=call, torch_gradient=False)


def _along(*arguments: Any, **keywords: Any) -> Form:
    return form(TWENTY_APART, *arguments, dim=0, **keywords).named()


def _forms_of_medians(op: str) -> Iterator[Form]:
    yield from (*_forms(), *_values(op))
    yield from (form(_few(dtype)).having(torch_gradient=False) for dtype in (np.float32, np.uint8))
    yield from (form(_differing(3, 4)), form(normal(0, 3)), form(_differing(7).astype(np.int32)))
    # Equal elements share the gradient.
    for row in ([0, 1, -0.0, 2, 0, -5], [5, 2, 5, 2, 1, 9], [NAN, 1, NAN, 1, 1, 2], [NAN] * 6):
        yield form(np.array(row, np.float32))
    yield form(TWENTY_APART).named()
    yield form(TWENTY_APART, 0).named("dim")


_WIDE = np.zeros((2, 0, 3), np.float32)


def _errors_of_kthvalue() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "got 0, allowed are 1 to 3", V, 0)
    yield refused(RuntimeError, "got 4, allowed are 1 to 3", V, 4)
    yield refused(NotImplementedError, "bool", BOOLS, 1)
    yield refused(NotImplementedError, "complex64", COMPLEX, 1)
    yield refused(IndexError, "dim 0 to have non-zero size", V[:0], 1)
    yield refused(IndexError, "dim 1 to have non-zero size", _WIDE, 1, 1)


def _errors_of_mode() -> Iterator[ErrorInput]:
    yield refused(IndexError, "dim 0 to have non-zero size", V[:0], 0)
    yield refused(IndexError, "dim 1 to have non-zero size", _WIDE, 1)
    yield refused(NotImplementedError, "complex64; it takes", COMPLEX, 0)


def _errors_of_medians() -> Iterator[ErrorInput]:
    yield from _errors_of_mode()
    yield refused(TypeError, "'dim' must be given", V, keepdim=True)
    yield refused(NotImplementedError, "bool; it takes integers and floats", BOOLS)
    yield refused(NotImplementedError, "bool", BOOLS, 0)
    yield refused(NotImplementedError, "complex64", COMPLEX)


def _errors_of_sort() -> Iterator[ErrorInput]:
    yield refused(IndexError, "but got 1", SCALAR, 1)
    yield refused(RuntimeError, "complex64; it takes bools, integers and floats", COMPLEX)


def _errors_of_topk() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "for dimension 0: got 4, allowed are 0 to 3", V, 4)
    yield refused(RuntimeError, "got -1, allowed are 0 to 3", V, -1)
    yield refused(RuntimeError, "got 2, allowed are 0 to 1", SCALAR, 2)
    yield refused(RuntimeError, "for dimension 1: got 1, allowed are 0 to 0", _WIDE, 1, 1)
    yield refused(RuntimeError, "bool; it takes integers and floats", BOOLS, 1)
    yield refused(RuntimeError, "complex64", COMPLEX, 1)


OPS = (
    OpInfo(
        "argsort",
        _argsort,
        lambda: without_gradient(*_forms(keepdim=False, stable=True), _along(stable=True)),
        _errors_of_sort,
        lambda jax, x: jax.numpy.argsort(x, axis=0),
    ),
    OpInfo(
        "kthvalue",
        _kthvalue,
        lambda: [*_forms(2, numbers=False), *_values("kthvalue", 2), _along(9)],
        _errors_of_kthvalue,
        lambda jax, x: jax.lax.top_k(x.T, 9),
    ),
    OpInfo(
        "median",
        functools.partial(_medians, "median", _rank),
        functools.partial(_forms_of_medians, "median"),
        _errors_of_medians,
        lambda jax, x: jax.numpy.median(x),
    ),
    OpInfo(
        "mode",
        _mode,
        # PyTorch sorts NaNs in no order.
        lambda: [*_forms(), *_values("mode", nans=False, dtypes=[bool]), _along()],
        _errors_of_mode,
        lambda jax, x: jax.scipy.stats.mode(x, axis=0),
    ),
    OpInfo(
        "nanmedian",
        functools.partial(_medians, "nanmedian", _rank_of_numbers),
        functools.partial(_forms_of_medians, "nanmedian"),
        _errors_of_medians,
        lambda jax, x: jax.numpy.nanmedian(x),
    ),
    OpInfo(
        "sort",
        _sort,
        lambda: [
            *_forms(keepdim=False, stable=True),
            *_forms(keepdim=False, stable=True, descending=True),
            *_values("sort", stable=True, dtypes=[bool]),
            *_values("sort", stable=True, descending=True, dtypes=[bool]),
            _along(stable=True),
        ],
        _errors_of_sort,
        lambda jax, x: (jax.numpy.sort(x, axis=0), jax.numpy.argsort(x, axis=0)),
    ),
    OpInfo(
        "topk",
        _topk,
        lambda: [
            *_forms(2, numbers=False, keepdim=False),
            *_forms(2, numbers=False, keepdim=False, largest=False, sorted=False),
            *_values("topk", 2),
            *_values("topk", 2, largest=False, sorted=False),
            _along(4),
        ],
        _errors_of_topk,
        lambda jax, x: jax.lax.top_k(x.T, 4),
    ),
)
