"""Samples of ops that add or write to elements: index_add, scatter, put and others."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    Reach,
    Write,
    indices,
    one_of_the_writes,
    places,
    rounded_once,
    values,
    written,
)
from conformance.cases._forms import (
    COLUMNS,
    EVERY_DTYPE,
    INDEX,
    INTEGERS,
    NO_INDEX,
    THREE,
    THREE_FACTORS,
    TWENTY,
    TWENTY_FACTORS,
    WRAPPED,
    by_elements,
    by_slices,
    from_longer,
    normal,
    reductions,
    spread,
    without_gradient,
)
from conformance.cases.table import Call, Form, OpInfo, Sample, form
from spec import oracles

_NUMBER = np.float32(0.99)
_UNIQUE = {"unique_indices": False}


def _writing(
    name: str,
    call: Call,
    arrays: tuple[Array, ...],
    reach: Reach,
    write: Write = oracles.source,
    **options: Any,
) -> Sample:
    """Returns a sample of a call that adds or writes a source to elements of its input.

    The gradient by the source is the elements that a sum reaches. A write has no reference of this
    gradient, which depends on the write that the op chose.

    Args:
        name: The name of the sample.
        call: Calls the op.
        arrays: The input, the indices and the source.
        reach: Returns the elements of an array that the call reaches.
        write: Combines the elements.
        **options: Other fields of the sample.
    """

    def accept(result: Any, x: Array, *rest: Array) -> None:
        *index, source = rest
        flat = places(x.shape, index, reach)
        one_of_the_writes(np.asarray(result).reshape(-1), x.reshape(-1), flat, source.reshape(-1))

    fields: dict[str, Any] = {
        "ordered": lambda x, *rest: written(x, rest[:-1], rest[-1], reach, write),
        "ordered_gradient": lambda ct, x, *rest: reach(ct, *rest[:-1]),
        "accept": accept if write is oracles.last_write else None,
    }
    return Sample(name=name, call=call, arrays=arrays, **{**fields, **options})


def _source(dtype: Any) -> int | None:
    """Returns the position of the source of three arrays, if it has a gradient."""
    return None if dtype is np.int32 else 2


def _rows(x: Array, i: Array) -> Array:
    return np.asarray(x[i])


def _lanes(x: Array, i: Array) -> Array:
    return np.take_along_axis(x, i, 0)


def _elements(x: Array, i: Array) -> Array:
    return np.asarray(x.reshape(-1)[i])


def _row_arrays(dtype: Any) -> tuple[Array, Array, Array]:
    return values((FEW, 3), dtype), indices((MANY,)), values((MANY, 3), dtype, 1)


def _lane_arrays(dtype: Any, lanes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    return (
        values((FEW, *lanes), dtype),
        indices((MANY, *lanes)),
        values((MANY, *lanes), dtype, 1),
    )


def _columns() -> tuple[Array, Array, Array]:
    return values((3, FEW), np.float32), indices((MANY,)), values((3, MANY), np.float32)


def _index_add() -> Iterator[Sample]:
    """Yields rows added along the first dimension for each dtype, and along the last dimension."""

    def call(ns: Any, x: Any, i: Any, s: Any) -> Any:
        return ns.index_add(x, 0, i, s)

    for name, dtype in DTYPES.items():
        yield _writing(name, call, _row_arrays(dtype), _rows, facts=_UNIQUE, wrt=_source(dtype))
    numbers = values((FEW,), np.float32), indices((500,)), values((500,), np.float32, 1)
    yield _writing("one_column", call, numbers, _rows, facts=_UNIQUE)
    yield _writing(
        "last_dim",
        lambda ns, x, i, s: ns.index_add(x, -1, i, s, alpha=2),
        _columns(),
        lambda x, i: x[:, i],
        lambda x, i, s: oracles.source(x, i, 2 * s),
        facts=_UNIQUE,
    )


def _index_copy() -> Iterator[Sample]:
    """Yields rows written along the first dimension for each dtype, and along the last one."""
    for name, dtype in DTYPES.items():
        yield _writing(
            name,
            lambda ns, x, i, s: ns.index_copy(x, 0, i, s),
            _row_arrays(dtype),
            _rows,
            oracles.last_write,
            facts=_UNIQUE,
        )
    yield _writing(
        "last_dim",
        lambda ns, x, i, s: ns.index_copy(x, -1, i, s),
        _columns(),
        lambda x, i: x[:, i],
        oracles.last_write,
        facts=_UNIQUE,
    )


def _adding(dtypes: Any = DTYPES) -> Iterator[tuple[str, Any, bool, Write]]:
    """Yields a name, a dtype, whether the call adds, and its oracle; the last call writes."""
    for name, dtype in dtypes.items():
        yield f"{name}_added", dtype, True, oracles.source
    yield "written", np.float32, False, oracles.last_write


def _index_put() -> Iterator[Sample]:
    """Yields rows written and added; two index arrays around a slice; and a quantized array."""
    for name, dtype, adds, write in _adding():
        yield _writing(
            name,
            lambda ns, x, i, v, adds=adds: ns.index_put(x, (i,), v, adds),
            _row_arrays(dtype),
            _rows,
            write,
            facts={"accumulate": adds},
            wrt=_source(dtype) if adds else None,
            choices=rounded_once(name, "forward"),
        )
    for name, _, adds, write in _adding({"two_arrays": np.float32}):
        yield _writing(
            name if adds else "two_arrays",
            lambda ns, x, i, j, v, adds=adds: ns.index_put(x, (i, None, j), v, adds),
            (
                values((2, 3, FEW), np.float32),
                indices((MANY,), 2) - 1,  # Negative indices count from the end.
                indices((MANY,)),
                values((MANY, 3), np.float32),
            ),
            lambda x, i, j: x[i, :, j],
            write,
            facts={"accumulate": adds},
        )
    codes = values((MANY + FEW, 3), np.int32).astype(np.float32)
    sample = _writing(
        "quantized",
        _put_quantized,
        (codes[:FEW], indices((MANY,)), codes[FEW:]),
        _rows,
        oracles.last_write,
        facts={"dtype": "integer", "accumulate": False},
    )
    of_floats: Any = sample.ordered
    yield dataclasses.replace(sample, ordered=lambda *codes: of_floats(*codes).astype(np.int8))


def _put_quantized(ns: Any, x: Any, i: Any, v: Any) -> Any:
    """Writes floats into a quantized array. The arrays hold the codes."""
    quantized = ns.quantize_per_tensor(x * np.float32(0.5), 0.5, 0, ns.qint8)
    return ns.index_put(quantized, (i,), v * np.float32(0.5)).int_repr


def _put() -> Iterator[Sample]:
    """Yields elements of two dimensions, added for each dtype and written for floats."""
    for name, dtype, adds, write in _adding():
        yield _writing(
            name,
            lambda ns, x, i, s, adds=adds: ns.put(x, i, s, adds),
            (
                values((FEW, 3), dtype),
                indices((2, MANY), 2 * FEW) - FEW,  # Negative indices count from the end.
                values((MANY, 2), dtype, 1),
            ),
            # The source has another shape than the index.
            lambda x, i: x.reshape(-1)[i].reshape(MANY, 2),
            write,
            facts={"accumulate": adds, **_UNIQUE},
            wrt=_source(dtype) if adds else None,
            choices=rounded_once(name, "forward"),
        )


def _scatter() -> Iterator[Sample]:
    """Yields writes, sums and products, of an array and of a number."""
    for name, lanes in (("floating", (3,)), ("narrow", ()), ("integer", ())):
        yield _writing(
            f"write_{name}",
            lambda ns, x, i, s: ns.scatter(x, 0, i, s),
            _lane_arrays(DTYPES[name], lanes),
            _lanes,
            oracles.last_write,
            facts={"src_is_array": True, "reduce": "none", **_UNIQUE},
        )
    numbers = values((FEW,), np.float32), indices((MANY,))
    yield Sample(
        name="write_number",
        facts={"src_is_array": False, "reduce": "none", **_UNIQUE},
        call=lambda ns, x, i: ns.scatter(x, 0, i, float(_NUMBER)),
        arrays=numbers,
        expected=lambda x, i: np.where(np.isin(np.arange(FEW), i), _NUMBER, x),
    )
    for reduce, combine in (("add", np.add), ("multiply", np.multiply)):
        for name, lanes in (("floating", (3,)), ("narrow", ())):
            x, i, s = _lane_arrays(DTYPES[name], lanes)
            if reduce == "multiply":
                s = (1 + s.astype(np.float32) / 16).astype(s.dtype)  # Their product stays in range.
            yield _writing(
                f"{reduce}_{name}",
                lambda ns, x, i, s, reduce=reduce: ns.scatter(x, 0, i, s, reduce=reduce),
                (x, i, s),
                _lanes,
                functools.partial(oracles.source, combine=combine),
                facts={"src_is_array": True, "reduce": reduce, **_UNIQUE},
                wrt=2 if reduce == "add" else None,
            )
        yield Sample(
            name=f"{reduce}_number",
            facts={"src_is_array": False, "reduce": reduce, **_UNIQUE},
            call=lambda ns, x, i, how=reduce: ns.scatter(x, 0, i, value=float(_NUMBER), reduce=how),
            arrays=numbers,
            ordered=lambda x, i, combine=combine: oracles.source(
                x, i, np.full(i.shape, _NUMBER), combine
            ),
        )


def _scatter_add() -> Iterator[Sample]:
    """Yields one and two dimensions for each dtype, a number, and an index of a corner."""

    def call(ns: Any, x: Any, i: Any, s: Any) -> Any:
        return ns.scatter_add(x, 0, i, s)

    for name, dtype in DTYPES.items():
        for lanes in ((), (3,)):
            yield _writing(
                f"{name}_{len(lanes) + 1}d",
                call,
                _lane_arrays(dtype, lanes),
                _lanes,
                facts=_UNIQUE,
                wrt=_source(dtype),
            )
    number = np.ones((), np.float32), np.zeros((), np.int32), np.ones((), np.float32)
    yield _writing("number", call, number, lambda x, i: x, facts=_UNIQUE)
    corner = values((3, FEW), np.float32), indices((2, MANY)), values((2, MANY + 1), np.float32)
    yield Sample(
        name="corner",
        facts=_UNIQUE,
        call=lambda ns, x, i, s: ns.scatter_add(x, 1, i, s),
        arrays=corner,
        ordered=lambda x, i, s: written(x, [i], s[:, :-1], _in_corner),
    )


def _in_corner(x: Array, i: Array) -> Array:
    return np.take_along_axis(x[: len(i)], i, 1)


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of ``s`` into the elements of ``x`` that ``i`` names.

    Attributes:
        reduce: The argument of PyTorch.
        number: A key of ``DTYPES``.
        include_self: The argument of PyTorch.
    """

    reduce: str
    number: str = "floating"
    include_self: bool = True

    def __call__(self, x: Array, i: Array, s: Array) -> Array:
        """Returns the result in order. bfloat16 is added in float32 and rounded once."""
        dtype, touched = x.dtype, np.isin(np.arange(len(x)), i)
        wide = np.dtype(np.float32) if dtype.itemsize < 4 and dtype.kind in "fV" else dtype
        least, most = -np.inf, np.inf
        if dtype.kind == "i":
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        combine, identity = {
            "sum": (np.add, -0.0),
            "mean": (np.add, -0.0),
            "prod": (np.multiply, 1),
            "amax": (np.maximum, least),
            "amin": (np.minimum, most),
        }[self.reduce]
        total = x.astype(wide)
        if not self.include_self:
            total = np.where(touched, np.asarray(identity).astype(wide), total)
        if combine in (np.add, np.multiply):
            total = oracles.source(total, i, s.astype(wide), combine)
        else:
            combine.at(total, i, s.astype(wide))
        if self.reduce == "mean":
            divide = np.floor_divide if dtype.kind == "i" else np.divide
            total = divide(total, self.divisor(x, i).astype(wide))
        return np.where(touched, total.astype(dtype), x)

    def divisor(self, x: Array, i: Array) -> Array:
        """Returns the divisor of a mean for each destination."""
        return np.maximum(np.bincount(i, minlength=len(x)) + self.include_self, 1)

    def sample(self, op: str, lanes: tuple[int, ...], reach: Reach) -> Sample:
        """Returns a sample, with a source whose products stay in range.

        Args:
            op: The name of the op.
            lanes: The lengths of the dimensions after the first one.
            reach: Returns the elements of an array that the call reaches.
        """
        shapes, dtype = [(FEW, *lanes), (MANY, *lanes)], DTYPES[self.number]
        x, s = (values(shape, dtype, seed) for seed, shape in enumerate(shapes))
        if self.reduce == "prod":
            x, s = (
                (1 + values(shape, np.float32, seed) / 16).astype(dtype)
                for seed, shape in enumerate(shapes)
            )
        options = {"reduce": self.reduce, "include_self": self.include_self}
        i = indices((MANY,) if reach is _rows else (MANY, *lanes))

        def gradient(ct: Array, x: Array, i: Array, _: Array) -> Array:
            if self.reduce == "mean":
                divisor = self.divisor(x.reshape(-1), places(x.shape, [i], reach))
                ct = ct / divisor.reshape(x.shape)
            return reach(ct.astype(np.float64), i)

        # The gradients of other reductions compute the op itself, whose bits depend on the mode.
        linear = self.reduce in ("sum", "mean") and self.number != "integer"
        return _writing(
            f"{self.reduce}_{self.number}" + ("" if self.include_self else "_without_self"),
            lambda ns, x, i, s: getattr(ns, op)(x, 0, i, s, **options),
            (x, i, s),
            reach,
            self,
            facts={"reduce": self.reduce, **_UNIQUE},
            wrt=2 if linear else None,
            ordered_gradient=None,
            expected_gradient=gradient,
            choices=rounded_once(self.number, "forward") if reach is _rows else {},
        )


def _index_reduce() -> Iterator[Sample]:
    """Yields each reduction of rows, with and without the initial value."""
    for reduction in (
        Reduction("mean"),
        Reduction("mean", "narrow", include_self=False),
        Reduction("mean", "integer", include_self=False),
        Reduction("prod", include_self=False),
        Reduction("prod", "narrow"),
        Reduction("amax"),
        Reduction("amin", include_self=False),
    ):
        yield reduction.sample("index_reduce", (3,), _rows)


def _scatter_reduce() -> Iterator[Sample]:
    """Yields each reduction, with and without the initial value, in one and two dimensions."""
    for reduction, lanes in (
        (Reduction("sum"), (3,)),
        (Reduction("sum", "narrow", include_self=False), ()),
        (Reduction("mean", include_self=False), (3,)),
        (Reduction("mean", "narrow"), ()),
        (Reduction("mean", "integer"), ()),
        (Reduction("prod"), (3,)),
        (Reduction("prod", "narrow", include_self=False), ()),
        (Reduction("amax", include_self=False), (3,)),
        (Reduction("amin", "integer"), ()),
    ):
        yield reduction.sample("scatter_reduce", lanes, _lanes)


def _bincount() -> Iterator[Sample]:
    """Yields a call with weights and a call without."""
    numbers = indices((MANY,))
    yield Sample(
        name="weights",
        facts={"dtype": "floating", "weights": True},
        call=lambda ns, n, w: ns.bincount(n, w, length=FEW),
        arrays=(numbers, values((MANY,), np.float32)),
        ordered=lambda n, w: oracles.source(np.zeros(FEW, w.dtype), n, w),
        wrt=1,
        ordered_gradient=lambda ct, n, w: ct[n],
    )
    yield Sample(
        name="counts",
        facts={"weights": False},
        call=lambda ns, n: ns.bincount(n, length=FEW),
        arrays=(numbers,),
        ordered=lambda n: np.bincount(n, minlength=FEW).astype(np.int32),
    )


_BINS = 7


def _histc() -> Iterator[Sample]:
    """Yields a range that excludes some elements, for each dtype, and the range of the data."""
    choice = "Bins are found in float32; PyTorch's of bfloat16 have other edges."
    for name, dtype in DTYPES.items():
        low, high = (-5, 9) if dtype is np.int32 else (-0.75, 1.1)
        data = values((MANY,), dtype)
        # A value at the edge of a bin shows a quotient that is off by one bit.
        data[: _BINS + 1] = (low + np.arange(_BINS + 1) * (high - low) / _BINS).astype(dtype)
        yield Sample(
            name=name,
            call=lambda ns, x, low=low, high=high: ns.histc(x, _BINS, low, high),
            arrays=(data,),
            ordered=lambda x, low=low, high=high: _counts(x, low, high),
            choices={"forward": choice} if name == "narrow" else {},
        )
    yield Sample(
        name="range_of_data",
        call=lambda ns, x: ns.histc(x, _BINS),
        arrays=(values((2, 1200), np.float32),),
        ordered=lambda x: _counts(x.reshape(-1), x.min(), x.max()),
    )


def _counts(x: Array, low: float, high: float) -> Array:
    """Returns ones added, in the bins that the op's documentation states."""
    wide: Array = x.astype(np.float32) if x.dtype.kind != "i" else x.astype(np.int64)
    ends: Array = np.array([low, high]).astype(x.dtype).astype(wide.dtype)
    least, most = ends
    scaled = (wide - least) * wide.dtype.type(_BINS)
    quotient = scaled // (most - least) if wide.dtype.kind == "i" else scaled / (most - least)
    bin = np.minimum(np.trunc(quotient), _BINS - 1).astype(np.int64)
    bin = np.where((wide >= least) & (wide <= most), bin, -1)
    return oracles.source(np.zeros(_BINS, x.dtype), bin, np.ones_like(x))


_REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("mean", "prod", "amax", "amin", "sum")
    for include_self in (True, False)
]


def _forms_of_bincount() -> Iterator[Form]:
    numbers = np.array([3, 1, 3, 0])
    for dtype in (np.int64, np.uint8, np.int16):
        yield form(numbers.astype(dtype))
        for of_weights in (np.float32, np.int32, bool):
            weights = np.array([1, 0, 1, 1], of_weights)
            yield form(numbers.astype(dtype), weights).having(torch_gradient=False)
    yield from (form(numbers, None, length) for length in (2, 7))
    yield form(NO_INDEX)
    yield form(INDEX, TWENTY[:, 0], length=3).named(torch_gradient=False)


def _forms_of_index_put() -> Iterator[Form]:
    yield form(THREE, (WRAPPED,), TWENTY).named(torch_gradient=False)
    yield form(THREE, (None, WRAPPED), spread(3, 20), accumulate=True).named("add")
    # The gradient by a number is a sum of XLA's, which may contract a product of the program.
    yield form(THREE, (COLUMNS[:3] > 0,), spread()).named("masked", same_bits=False)


def _forms_of_put() -> Iterator[Form]:
    indices = (np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]]))
    for accumulate, shape, index in itertools.product((False, True), [(2, 3), (), (5,)], indices):
        source = normal(index.size).reshape(index.shape)
        yield form(normal(*shape), index, source, accumulate).having(torch_gradient=False)
    yield form(THREE, 3 * WRAPPED, TWENTY[:, 0]).named(torch_gradient=False)
    yield form(THREE, 3 * WRAPPED, TWENTY[:, 0], accumulate=True).named("add")


OPS = (
    OpInfo("bincount", _bincount, _forms_of_bincount),
    OpInfo(
        "histc",
        _histc,
        lambda: [
            *(
                form(normal(60), *rest).having(torch_gradient=False)
                for rest in ((9, -0.7, 0.9), (5,), (4, 0, 2), (1, 0, 1))
            ),
            form(TWENTY, 5).named(smooth=False, torch_gradient=False),
        ],
    ),
    OpInfo(
        "index_add",
        _index_add,
        lambda: [
            *by_slices({}, {"alpha": 2}, dtypes=EVERY_DTYPE),
            form(THREE, 1, INDEX, spread(3, 20), alpha=0.5).named(),
        ],
    ),
    OpInfo(
        "index_copy",
        _index_copy,
        lambda: without_gradient(
            [*by_slices({}, dtypes=EVERY_DTYPE), form(THREE, 0, INDEX, TWENTY).named()]
        ),
    ),
    OpInfo("index_put", _index_put, _forms_of_index_put),
    OpInfo(
        "index_reduce",
        _index_reduce,
        lambda: [
            *by_slices(*_REDUCTIONS[:8], dtypes=[np.float16, *INTEGERS]),
            *reductions(INDEX, [("prod", True), ("mean", False), ("amax", False), ("amin", True)]),
        ],
    ),
    OpInfo("put", _put, _forms_of_put),
    OpInfo(
        "scatter",
        _scatter,
        lambda: [
            *without_gradient(
                [
                    *by_elements({}, {"reduce": "add"}, {"reduce": "multiply"}, dtypes=EVERY_DTYPE),
                    *from_longer({}),
                    form(THREE, 0, COLUMNS, TWENTY).named(),
                ]
            ),
            # PyTorch differentiates its `scatter_reduce` alone.
            form(THREE_FACTORS, 0, COLUMNS, TWENTY_FACTORS, reduce="multiply").named(
                "multiply", torch_gradient=False
            ),
        ],
    ),
    OpInfo(
        "scatter_add",
        _scatter_add,
        lambda: [
            *by_elements({}, dtypes=EVERY_DTYPE),
            *from_longer({}),
            form(THREE, 1, COLUMNS.T, spread(3, 20)).named(),
        ],
    ),
    OpInfo(
        "scatter_reduce",
        _scatter_reduce,
        lambda: [
            *by_elements(*_REDUCTIONS, dtypes=[np.float16, *INTEGERS]),
            *from_longer(*_REDUCTIONS[:3]),
            *reductions(COLUMNS, [("prod", False), ("mean", True), ("amin", False)]),
        ],
    ),
)
