"""Samples of the scatters along a dimension: index_add, scatter_reduce and others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
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
    rounded_once,
    values,
)
from conformance.suite.sample import OpInfo, Sample
from spec import oracles

_COMBINE: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "sum": np.add,
        "mean": np.add,
        "prod": np.multiply,
        "amax": np.maximum,
        "amin": np.minimum,
    }
)


class _Unbounded:
    min, max = -np.inf, np.inf


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction along the first dimension, of ``s`` into the elements of ``x`` that ``i`` names.

    Attributes:
        reduce: The argument of PyTorch.
        number: A key of ``DTYPES``.
        include_self: The argument of PyTorch.
    """

    reduce: str
    number: str = "floating"
    include_self: bool = True

    @property
    def name(self) -> str:
        """The name of a sample."""
        return f"{self.reduce}_{self.number}" + ("" if self.include_self else "_without_self")

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of a call."""
        return {"reduce": self.reduce, "include_self": self.include_self}

    def values(self, shape: tuple[int, ...], seed: int = 0) -> Array:
        """Returns numbers to reduce. A product of thousands of them stays in range."""
        if self.reduce == "prod":
            return (1 + values(shape, np.float32, seed) / 16).astype(DTYPES[self.number])
        return values(shape, DTYPES[self.number], seed)

    def expected(self, x: Array, i: Array, s: Array) -> Array:
        """Returns the result in float64."""
        out = self._start(x.astype(np.float64), i)
        _COMBINE[self.reduce].at(out, i, s.astype(np.float64))
        return self._finished(out, x.astype(np.float64), i)

    def ordered(self, x: Array, i: Array, s: Array) -> Array:
        """Returns the result in order. bfloat16 is added in float32 and rounded once."""
        wide = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
        total, s = self._start(x.astype(wide), i), s.astype(wide)
        combine = _COMBINE[self.reduce]
        if combine in (np.add, np.multiply):
            total = oracles.source(total, i, s, combine)
        else:
            combine.at(total, i, s)
        return self._finished(total, x, i)

    def divisor(self, x: Array, i: Array) -> Array:
        """Returns the divisor of a mean for each destination."""
        return np.maximum(np.bincount(i, minlength=len(x)) + self.include_self, 1)

    def _start(self, x: Array, i: Array) -> Array:
        if self.include_self:
            return x.copy()
        limits = np.iinfo(x.dtype) if x.dtype.kind == "i" else _Unbounded
        identities: dict[np.ufunc, Any] = {
            np.add: -0.0,
            np.multiply: 1,
            np.maximum: limits.min,
            np.minimum: limits.max,
        }
        identity = np.asarray(identities[_COMBINE[self.reduce]]).astype(x.dtype)
        return np.where(_touched(x, i), identity, x)

    def _finished(self, total: Array, x: Array, i: Array) -> Array:
        if self.reduce == "mean":
            divide = np.floor_divide if DTYPES[self.number] is np.int32 else np.divide
            total = divide(total, self.divisor(x, i).astype(total.dtype))
        return np.where(_touched(x, i), total.astype(x.dtype), x)


def _touched(x: Array, i: Array) -> Array:
    return np.isin(np.arange(len(x)), i)


def _index_add() -> Iterator[Sample]:
    """Yields rows added along the first dimension for each dtype, and along the last dimension."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2, "unique_indices": False},
            call=lambda ns, x, i, s: ns.index_add(x, 0, i, s),
            arrays=(values((FEW, 3), dtype), indices((MANY,)), values((MANY, 3), dtype, 1)),
            expected=folded,
            ordered=oracles.source,
            wrt=None if dtype is np.int32 else 2,
            expected_gradient=lambda ct, x, i, s: ct[i].astype(np.float64),
            ordered_gradient=lambda ct, x, i, s: ct[i],
        )
    yield Sample(
        name="one_column",
        facts={"dtype": "floating", "input_ndim": 1, "unique_indices": False},
        call=lambda ns, x, i, s: ns.index_add(x, 0, i, s),
        arrays=(values((FEW,), np.float32), indices((500,)), values((500,), np.float32, 1)),
        expected=folded,
        ordered=oracles.source,
    )
    yield Sample(
        name="last_dim",
        facts={"dtype": "floating", "input_ndim": 2, "unique_indices": False},
        call=lambda ns, x, i, s: ns.index_add(x, -1, i, s, alpha=2),
        arrays=(values((3, FEW), np.float32), indices((MANY,)), values((3, MANY), np.float32)),
        expected=lambda x, i, s: folded(x.T, i, 2 * s.T).T,
        ordered=lambda x, i, s: oracles.source(x.T, i, 2 * s.T).T,
    )


def _index_copy() -> Iterator[Sample]:
    """Yields rows written along the first dimension for each dtype, and along the last one."""
    # There is no sample of the gradient, which depends on the write that the op chose.
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2, "unique_indices": False},
            call=lambda ns, x, i, s: ns.index_copy(x, 0, i, s),
            arrays=(values((FEW, 3), dtype), indices((MANY,)), values((MANY, 3), dtype, 1)),
            expected=oracles.last_write,
            ordered=oracles.last_write,
            accept=one_of_the_writes,
        )
    yield Sample(
        name="last_dim",
        facts={"dtype": "floating", "input_ndim": 2, "unique_indices": False},
        call=lambda ns, x, i, s: ns.index_copy(x, -1, i, s),
        arrays=(values((3, FEW), np.float32), indices((MANY,)), values((3, MANY), np.float32)),
        expected=lambda x, i, s: oracles.last_write(x.T, i, s.T).T,
        ordered=lambda x, i, s: oracles.last_write(x.T, i, s.T).T,
        accept=lambda result, x, i, s: one_of_the_writes(np.transpose(result), x.T, i, s.T),
    )


_COLUMNS = 3


def _index_reduce() -> Iterator[Sample]:
    """Yields each reduction of rows, with and without the initial value."""
    yield _index_reduce_sample(Reduction("mean"))
    yield _index_reduce_sample(Reduction("mean", "narrow", include_self=False))
    yield _index_reduce_sample(Reduction("mean", "integer", include_self=False))
    yield _index_reduce_sample(Reduction("prod", include_self=False))
    yield _index_reduce_sample(Reduction("prod", "narrow"))
    yield _index_reduce_sample(Reduction("amax"))
    yield _index_reduce_sample(Reduction("amin", include_self=False))


def _index_reduce_sample(reduction: Reduction) -> Sample:
    # The gradients of other reductions compute the op itself, whose bits depend on the mode.
    linear = reduction.reduce == "mean" and reduction.number != "integer"
    return Sample(
        name=reduction.name,
        facts={
            "dtype": kind(reduction.number),
            "input_ndim": 2,
            "reduce": reduction.reduce,
            "unique_indices": False,
        },
        call=lambda ns, x, i, s: ns.index_reduce(x, 0, i, s, **reduction.options),
        arrays=(
            reduction.values((FEW, _COLUMNS)),
            indices((MANY,)),
            reduction.values((MANY, _COLUMNS), 1),
        ),
        expected=lambda x, i, s: by_column(reduction.expected, x, _for_each_column(i), s),
        ordered=lambda x, i, s: by_column(reduction.ordered, x, _for_each_column(i), s),
        wrt=2 if linear else None,
        expected_gradient=lambda ct, x, i, s: (ct / reduction.divisor(x, i)[:, None])[i],
        choices=rounded_once(reduction.number, "forward"),
    )


def _for_each_column(i: Array) -> Array:
    return np.stack([i] * _COLUMNS, axis=1)


_NUMBER = 0.99


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


def _scatter_add() -> Iterator[Sample]:
    """Yields one and two dimensions for each dtype, a number, and an index of a corner."""
    for name, dtype in DTYPES.items():
        for lanes in ((), (3,)):
            yield _scatter_add_sample(f"{name}_{len(lanes) + 1}d", lanes, kind(name), dtype)
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 0, "unique_indices": False},
        call=lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
        arrays=(np.ones((), np.float32), np.zeros((), np.int32), np.ones((), np.float32)),
        expected=lambda x, i, s: x + s,
        ordered=lambda x, i, s: x + s,
    )
    yield Sample(
        name="corner",
        facts={"dtype": "floating", "input_ndim": 2, "unique_indices": False},
        call=lambda ns, x, i, s: ns.scatter_add(x, 1, i, s),
        arrays=(
            values((3, FEW), np.float32),
            indices((2, MANY)),
            values((2, MANY + 1), np.float32),
        ),
        expected=lambda x, i, s: by_column(folded, x.T, i.T, s[:, :-1].T).T,
        ordered=lambda x, i, s: by_column(oracles.source, x.T, i.T, s[:, :-1].T).T,
    )


def _scatter_add_sample(name: str, lanes: tuple[int, ...], dtype_fact: str, dtype: Any) -> Sample:
    return Sample(
        name=name,
        facts={"dtype": dtype_fact, "input_ndim": 1 + len(lanes), "unique_indices": False},
        call=lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
        arrays=(
            values((FEW, *lanes), dtype),
            indices((MANY, *lanes)),
            values((MANY, *lanes), dtype, 1),
        ),
        expected=functools.partial(by_column, folded),
        ordered=functools.partial(by_column, oracles.source),
        wrt=None if dtype is np.int32 else 2,
        expected_gradient=lambda ct, x, i, s: np.take_along_axis(ct, i, 0).astype(np.float64),
        ordered_gradient=lambda ct, x, i, s: np.take_along_axis(ct, i, 0),
    )


def _scatter_reduce() -> Iterator[Sample]:
    """Yields each reduction, with and without the initial value, in one and two dimensions."""
    yield _scatter_reduce_sample(Reduction("sum"), (3,))
    yield _scatter_reduce_sample(Reduction("sum", "narrow", include_self=False), ())
    yield _scatter_reduce_sample(Reduction("mean", include_self=False), (3,))
    yield _scatter_reduce_sample(Reduction("mean", "narrow"), ())
    yield _scatter_reduce_sample(Reduction("mean", "integer"), ())
    yield _scatter_reduce_sample(Reduction("prod"), (3,))
    yield _scatter_reduce_sample(Reduction("prod", "narrow", include_self=False), ())
    yield _scatter_reduce_sample(Reduction("amax", include_self=False), (3,))
    yield _scatter_reduce_sample(Reduction("amin", "integer"), ())


def _scatter_reduce_sample(reduction: Reduction, lanes: tuple[int, ...]) -> Sample:
    # The gradients of other reductions compute the op itself, which a profile may refuse.
    linear = reduction.reduce in ("sum", "mean") and reduction.number != "integer"

    def gradient(x: Array, i: Array, ct: Array) -> Array:
        return (ct / reduction.divisor(x, i) if reduction.reduce == "mean" else ct)[i]

    return Sample(
        name=reduction.name,
        facts={
            "dtype": kind(reduction.number),
            "input_ndim": 1 + len(lanes),
            "reduce": reduction.reduce,
            "unique_indices": False,
        },
        call=lambda ns, x, i, s: ns.scatter_reduce(x, 0, i, s, **reduction.options),
        arrays=(
            reduction.values((FEW, *lanes)),
            indices((MANY, *lanes)),
            reduction.values((MANY, *lanes), 1),
        ),
        expected=functools.partial(by_column, reduction.expected),
        ordered=functools.partial(by_column, reduction.ordered),
        wrt=2 if linear else None,
        expected_gradient=lambda ct, x, i, s: by_column(gradient, x, i, ct.astype(np.float64)),
    )


OPS = (
    OpInfo("index_add", _index_add),
    OpInfo("index_copy", _index_copy),
    OpInfo("index_reduce", _index_reduce),
    OpInfo("scatter", _scatter),
    OpInfo("scatter_add", _scatter_add),
    OpInfo("scatter_reduce", _scatter_reduce),
)
