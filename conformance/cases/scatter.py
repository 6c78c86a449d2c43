"""Samples of scatter."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    by_column,
    folded,
    indices,
    kind,
    one_of_the_writes,
    values,
)
from conformance.suite.sample import Sample
from spec import oracles

_NUMBER = 0.99


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"scatter": tuple(_scatter())}


def _scatter() -> Iterator[Sample]:
    """Yields writes, sums and products, of an array and of a number."""
    yield _write("floating", (3,))
    yield _write("narrow", ())
    yield _write("integer", ())
    yield Sample(
        name="write_number",
        facts=_facts("floating", (), "none", is_array=False),
        call=lambda ns, x, i: ns.scatter(x, 0, i, _NUMBER),
        arrays=(values((FEW,), np.float32), indices((MANY,))),
        expected=lambda x, i: np.where(np.isin(np.arange(FEW), i), np.float32(_NUMBER), x),
    )
    for reduce, combine in (("add", np.add), ("multiply", np.multiply)):
        yield _fold(reduce, combine, "floating", (3,))
        yield _fold(reduce, combine, "narrow", ())
        yield Sample(
            name=f"{reduce}_number",
            facts=_facts("floating", (), reduce, is_array=False),
            call=lambda ns, x, i, reduce=reduce: ns.scatter(x, 0, i, value=_NUMBER, reduce=reduce),
            arrays=(values((FEW,), np.float32), indices((MANY,))),
            expected=functools.partial(_by_number, folded, combine),
            ordered=functools.partial(_by_number, oracles.source, combine),
        )


def _facts(number: str, lanes: tuple[int, ...], reduce: str, *, is_array: bool) -> dict[str, Any]:
    return {
        "dtype": kind(number),
        "input_ndim": 1 + len(lanes),
        "src_is_array": is_array,
        "reduce": reduce,
        "unique_indices": False,
    }


def _write(number: str, lanes: tuple[int, ...]) -> Sample:
    # There is no sample of the gradient, which depends on the write that the op chose.
    return Sample(
        name=f"write_{number}",
        facts=_facts(number, lanes, "none", is_array=True),
        call=lambda ns, x, i, s: ns.scatter(x, 0, i, s),
        arrays=_arrays(number, lanes),
        expected=functools.partial(by_column, oracles.last_write),
        ordered=functools.partial(by_column, oracles.last_write),
        accept=_accept,
    )


def _accept(result: Any, x: Array, i: Array, s: Array) -> None:
    if x.ndim == 1:
        one_of_the_writes(result, x, i, s)
        return
    for column in range(x.shape[1]):
        one_of_the_writes(result[:, column], x[:, column], i[:, column], s[:, column])


def _fold(reduce: str, combine: np.ufunc, number: str, lanes: tuple[int, ...]) -> Sample:
    x, i, s = _arrays(number, lanes)
    if reduce == "multiply":
        s = (1 + s.astype(np.float32) / 16).astype(s.dtype)  # Their product stays in range.
    linear = reduce == "add"
    return Sample(
        name=f"{reduce}_{number}",
        facts=_facts(number, lanes, reduce, is_array=True),
        call=lambda ns, x, i, s: ns.scatter(x, 0, i, s, reduce=reduce),
        arrays=(x, i, s),
        expected=functools.partial(by_column, functools.partial(folded, combine=combine)),
        ordered=functools.partial(by_column, functools.partial(oracles.source, combine=combine)),
        wrt=2 if linear else None,
        expected_gradient=lambda ct, x, i, s: np.take_along_axis(ct, i, 0).astype(np.float64),
    )


def _arrays(number: str, lanes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    dtype = DTYPES[number]
    return (
        values((FEW, *lanes), dtype),
        indices((MANY, *lanes)),
        values((MANY, *lanes), dtype, 1),
    )


def _by_number(fold: Any, combine: np.ufunc, x: Array, i: Array) -> Any:
    return fold(x, i, np.full(i.shape, _NUMBER, x.dtype), combine=combine)
