"""Samples of ops that scatter, multiply or reduce: scatter, scatter_reduce and others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import (
    DTYPES,
    UNIQUE,
    Array,
    Reach,
    lanes_of,
    places,
    rounded_once,
    rows,
    source_of,
    updates,
    writing,
    written,
)
from conformance.cases._forms import (
    BOOLS,
    COLUMNS,
    COMPLEX,
    EVERY_DTYPE,
    INDEX,
    INF,
    INTEGERS,
    NAN,
    ONE,
    POINT,
    SQUARE,
    THREE,
    THREE_FACTORS,
    TWENTY,
    TWENTY_FACTORS,
    M,
    V,
    at,
    by_elements,
    by_slices,
    from_longer,
    ones,
    reductions,
    spread,
    unlike_torch,
    without_gradient,
)
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles

_NUMBER = np.float32(0.99)


def _scatter(d: Draw) -> Iterator[Sample]:
    """Yields writes, sums and products, of an array and of a number."""
    for name, lanes in (("floating", (d.lanes,)), ("narrow", ()), ("integer", ())):
        yield writing(
            f"write_{name}",
            lambda ns, x, i, s: ns.scatter(x, 0, i, s),
            updates(d, DTYPES[name], lanes, lanes),
            lanes_of,
            oracles.last_write,
            facts={"src_is_array": True, "reduce": "none", **UNIQUE},
        )
    numbers = d.values((d.few,), np.float32), d.indices((d.many,))
    yield Sample(
        name="write_number",
        facts={"src_is_array": False, "reduce": "none", **UNIQUE},
        call=lambda ns, x, i: ns.scatter(x, 0, i, float(_NUMBER)),
        arrays=numbers,
        expected=lambda x, i: np.where(np.isin(np.arange(d.few), i), _NUMBER, x),
    )
    for reduce, combine in (("add", np.add), ("multiply", np.multiply)):
        write = functools.partial(oracles.source, combine=combine)
        for name, lanes in (("floating", (d.lanes,)), ("narrow", ())):
            x, i, s = updates(d, DTYPES[name], lanes, lanes)
            if reduce == "multiply":
                s = (1 + s.astype(np.float32) / 16).astype(s.dtype)  # Their product stays in range.
            yield writing(
                f"{reduce}_{name}",
                lambda ns, x, i, s, reduce=reduce: ns.scatter(x, 0, i, s, reduce=reduce),
                (x, i, s),
                lanes_of,
                write,
                facts={"src_is_array": True, "reduce": reduce, **UNIQUE},
                wrt=2 if reduce == "add" else None,
            )
        yield Sample(
            name=f"{reduce}_number",
            facts={"src_is_array": False, "reduce": reduce, **UNIQUE},
            call=lambda ns, x, i, how=reduce: ns.scatter(x, 0, i, value=float(_NUMBER), reduce=how),
            arrays=numbers,
            ordered=lambda x, i, write=write: written(
                x, [i], np.full(i.shape, _NUMBER), lanes_of, write
            ),
        )


def _scatter_add(d: Draw) -> Iterator[Sample]:
    """Yields one and two dimensions for each dtype, a number, and an index of a corner."""

    def call(ns: Any, x: Any, i: Any, s: Any) -> Any:
        return ns.scatter_add(x, 0, i, s)

    for name, dtype in DTYPES.items():
        for lanes in ((), (d.lanes,)):
            yield writing(
                f"{name}_{len(lanes) + 1}d",
                call,
                updates(d, dtype, lanes, lanes),
                lanes_of,
                facts=UNIQUE,
                wrt=source_of(dtype),
            )
    number = np.ones((), np.float32), np.zeros((), np.int32), np.ones((), np.float32)
    yield writing("number", call, number, lambda x, i: x, facts=UNIQUE)
    x, source = d.values((3, d.few), np.float32), d.values((2, d.many + 1), np.float32)
    yield Sample(
        name="corner",
        facts=UNIQUE,
        call=lambda ns, x, i, s: ns.scatter_add(x, 1, i, s),
        arrays=(x, d.indices((2, d.many)), source),
        ordered=_in_corner,
    )


def _in_corner(x: Array, i: Array, s: Array) -> Array:
    corner = written(x[:2].T, [i.T], s[:, :-1].T, lanes_of).T
    return np.concatenate([corner, x[2:]])


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of ``s`` into the elements of ``x`` that ``i`` names."""

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
            signs = np.where(total == 0, np.copysign(1, total), identity)
            combine.at(signs, i, np.where(s == 0, np.copysign(1, s), identity))
            combine.at(total, i, s.astype(wide))
            # A zero is the greater one of two if it is +0.
            total = np.where(total == 0, np.copysign(0, signs), total)
        if self.reduce == "mean":
            divide = np.floor_divide if dtype.kind == "i" else np.divide
            total = divide(total, self.divisor(x, i).astype(wide))
        # An element without terms is a sum too, so it is +0 and not -0.
        return np.where(touched | (self.reduce == "sum"), total.astype(dtype), x)

    def divisor(self, x: Array, i: Array) -> Array:
        """Returns the divisor of a mean for each destination."""
        return np.maximum(np.bincount(i, minlength=len(x)) + self.include_self, 1)

    def sample(self, d: Draw, op: str, lanes: tuple[int, ...], reach: Reach) -> Sample:
        """Returns a sample, with a source whose products stay in range."""
        is_product, dtype = self.reduce == "prod", DTYPES[self.number]
        of_index = () if reach is rows else lanes
        x, i, s = updates(d, np.float32 if is_product else dtype, lanes, of_index)
        if is_product:
            x, s = ((1 + array / 16).astype(dtype) for array in (x, s))
        options = {"reduce": self.reduce, "include_self": self.include_self}

        def gradient(ct: Array, x: Array, i: Array, _: Array) -> Array:
            if self.reduce == "mean":
                divisor = self.divisor(x.reshape(-1), places(x.shape, [i], reach))
                ct = ct / divisor.reshape(x.shape)
            return reach(ct.astype(np.float64), i)

        # The gradients of other reductions compute the op itself, whose bits depend on the mode.
        linear = self.reduce in ("sum", "mean") and self.number != "integer"
        return writing(
            f"{self.reduce}_{self.number}" + ("" if self.include_self else "_without_self"),
            lambda ns, x, i, s: getattr(ns, op)(x, 0, i, s, **options),
            (x, i, s),
            reach,
            self,
            facts={"reduce": self.reduce, **UNIQUE},
            wrt=2 if linear else None,
            ordered_gradient=None,
            expected_gradient=gradient,
            choices=rounded_once(self.number, "forward") if reach is rows else {},
        )


def _index_reduce(d: Draw) -> Iterator[Sample]:
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
        yield reduction.sample(d, "index_reduce", (d.lanes,), rows)


def _scatter_reduce(d: Draw) -> Iterator[Sample]:
    """Yields each reduction, with and without the initial value, in one and two dimensions."""
    for reduction, lanes in (
        (Reduction("sum"), (d.lanes,)),
        (Reduction("sum", "narrow", include_self=False), ()),
        (Reduction("mean", include_self=False), (d.lanes,)),
        (Reduction("mean", "narrow"), ()),
        (Reduction("mean", "integer"), ()),
        (Reduction("prod"), (d.lanes,)),
        (Reduction("prod", "narrow", include_self=False), ()),
        (Reduction("amax", include_self=False), (d.lanes,)),
        (Reduction("amin", "integer"), ()),
    ):
        yield reduction.sample(d, "scatter_reduce", lanes, lanes_of)


_REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("mean", "prod", "amax", "amin", "sum")
    for include_self in (True, False)
]


def _tied(index: Array, cases: Sequence[Mapping[str, Any]]) -> Iterator[Form]:
    """Yields reductions of ties, and of zeros among the factors."""
    x = np.array([[0, 1, 2], [1, 0, 1], [2, 2, 0], [3, 3, 3]], np.float32)
    source = np.array([[1, 0, 0], [2, 0, 2], [1, 1, 2], [0, 2, 1], [0, 1, 0]], np.float32)
    for options in cases:
        # PyTorch gives an element of the input a share if it equals the result by chance.
        yield form(x if options["include_self"] else x + 0.5, 0, index, source, **options)


#: Reductions of NaNs and infinities.
_NOT_FINITE = (
    *(at(0, 2, 5, -INF, NAN).astype(np.float32), 0, at(0, 0, 1, 2, 2, 3)),
    at(1, NAN, NAN, -INF, -INF, INF).astype(np.float32),
)
#: Numbers to write, and the dtype that holds them.
_NUMBERS: Sequence[tuple[Any, Any]] = (
    (2.5, np.float32),
    (2, np.float16),
    (2.5, bfloat16),
    (-2.5, np.int32),
    (True, np.int8),
    (-1, np.uint8),
    (0.5, bool),
    (INF, np.float16),
    (1 + 2j, np.complex64),
    (2**40, np.float32),
)


def _errors_of_index_reduce() -> Iterator[ErrorInput]:
    one, words = ones(1), "'prod', 'mean', 'amax', 'amin', but"
    yield refused(RuntimeError, words, V, 0, ONE, one, "sum")
    yield refused(IndexError, "index 3 is out of bounds", V, 0, at(3), one, "mean")
    yield refused(IndexError, "index -1 is out of", M, 0, at(0, -1), ones(2, 2), "amax")
    yield refused(IndexError, "to be a vector, but got dim: 2", V, 0, SQUARE, one, "prod")
    yield refused(RuntimeError, "Number of indices (1)", V, 0, ONE, ones(2), "prod")
    yield refused(RuntimeError, "source.shape = [1]", M, 0, ONE, one, "prod")


def _errors_of_scatter() -> Iterator[ErrorInput]:
    one, of_int8 = ones(1), V.astype(np.int8)
    yield refused(TypeError, "'index' must be", V, 0, [0], 2)
    yield refused(TypeError, "'src' must be", V, 0, ONE, [1.0])
    yield refused(TypeError, "'src' must be", V, 0, ONE, "1")
    yield refused(TypeError, "but got neither", V, 0, ONE)
    yield refused(TypeError, "but got both", V, 0, ONE, one, value=1)
    yield refused(TypeError, "'value' must be Number", V, 0, ONE, value=one)
    yield refused(RuntimeError, "for index but got: int16", V, 0, ONE.astype(np.int16), 2)
    yield refused(RuntimeError, "'add', 'multiply', but got 'sum'", V, 0, ONE, one, reduce="sum")
    yield refused(RuntimeError, "index 3 is out of bounds", V, 0, at(1, 3), ones(2))
    yield refused(RuntimeError, "index -1 is out of bounds", V, 0, at(-1), one)
    yield refused(RuntimeError, "position [0] of argument 'index'", V, 0, at(-1), 2)
    yield refused(RuntimeError, "as many dimensions", M, 0, ONE, one)
    yield refused(RuntimeError, "as many dimensions", M, 0, ONE, 2)
    yield refused(RuntimeError, "no larger than src [1]", V, 0, at(0, 1), one)
    yield refused(RuntimeError, "cannot be converted to float32", V, 0, ONE, 2j)
    yield refused(RuntimeError, "without overflow, got 1e+39", V, 0, ONE, 1e39)
    yield refused(RuntimeError, "converted to int8", of_int8, 0, ONE, 128)
    yield refused(RuntimeError, "got nan", of_int8, 0, ONE, NAN)
    yield refused(RuntimeError, "converted to uint8", V.astype(np.uint8), 0, ONE, -1.0)
    yield refused(RuntimeError, "converted to float16", V.astype(np.float16), 0, ONE, 7e4)
    # An OverflowError in PyTorch.
    large = refused(RuntimeError, "converted to int32", V.astype(np.int32), 0, ONE, 2**70)
    yield from unlike_torch(large)


def _errors_of_scatter_add() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "as many dimensions", M, 0, ONE, ones(1))
    yield refused(RuntimeError, "as many dimensions", M, 0, POINT, ones(1, 1))
    two_rows, three_columns = np.zeros((2, 2), int), np.zeros((2, 3), int)
    words = "index [2, 2] to be no larger than src [1, 2]"
    yield refused(RuntimeError, words, M, 0, two_rows, ones(1, 2))
    words = "no larger than input [3, 2] apart from dimension 0"
    yield refused(RuntimeError, words, M, 0, three_columns, ones(2, 3))
    yield refused(RuntimeError, "index 3 is out of bounds", V, 0, at(1, 3), ones(2))
    yield refused(RuntimeError, "index -1 is out of bounds", V, 0, at(-1), ones(1))
    # An IndexError about the dimension in PyTorch.
    words = "as many dimensions as 'src'"
    yield from unlike_torch(refused(RuntimeError, words, M, 0, SQUARE, ones(1)))


def _errors_of_scatter_reduce() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "'amin', but got 'add'", V, 0, ONE, ones(1), "add")
    yield refused(RuntimeError, "index 3 is out of bounds", V, 0, at(3), ones(1), "mean")
    yield refused(NotImplementedError, "for bool", V > 0, 0, ONE, BOOLS[:1], "mean")
    # PyTorch multiplies complex numbers in an order that it does not state.
    product = (V.astype(np.complex64), 0, ONE, COMPLEX[:1], "prod")
    words = "jax.numpy.ndarray.at[].multiply"
    yield from unlike_torch(refused(NotImplementedError, words, *product))


OPS = (
    OpInfo(
        "index_reduce",
        _index_reduce,
        lambda: [
            *by_slices(*_REDUCTIONS[:8], dtypes=[np.float16, *INTEGERS]),
            *_tied(np.array([2, 0, 2, 1, 2]), _REDUCTIONS[:8]),
            *reductions(INDEX, [("prod", True), ("mean", False), ("amax", False), ("amin", True)]),
        ],
        _errors_of_index_reduce,
        lambda _, x, i, s: x.at[i].multiply(s),
    ),
    OpInfo(
        "scatter",
        _scatter,
        lambda: [
            *without_gradient(
                *by_elements({}, {"reduce": "add"}, {"reduce": "multiply"}, dtypes=EVERY_DTYPE),
                *from_longer({}),
                form(THREE, 0, COLUMNS, TWENTY).named(),
            ),
            *(
                form(np.array([1, 0, 1], dtype), 0, at(2, 1, 2), number).having(
                    torch_gradient=False
                )
                for number, dtype in _NUMBERS
            ),
            *(
                form(np.array([1, 0, 1], np.int32), 0, at(2, 1, 2), -2.5, reduce=reduce)
                for reduce in ("add", "multiply")
            ),
            # PyTorch differentiates its `scatter_reduce` alone.
            form(THREE_FACTORS, 0, COLUMNS, TWENTY_FACTORS, reduce="multiply").named(
                "multiply", torch_gradient=False
            ),
        ],
        _errors_of_scatter,
        lambda jax, *arrays: jax.numpy.put_along_axis(*arrays, axis=0, inplace=False),
    ),
    OpInfo(
        "scatter_add",
        _scatter_add,
        lambda: [
            *by_elements({}, dtypes=EVERY_DTYPE),
            *from_longer({}),
            form(THREE, 1, COLUMNS.T, spread(3, 20)).named(),
        ],
        _errors_of_scatter_add,
        lambda jax, x, i, s: x.at[jax.numpy.arange(3)[:, None], i].add(s),
    ),
    OpInfo(
        "scatter_reduce",
        _scatter_reduce,
        lambda: [
            *by_elements(*_REDUCTIONS, dtypes=[np.float16, *INTEGERS]),
            *from_longer(*_REDUCTIONS[:3]),
            *_tied(np.array([[2, 0, 0], [0, 2, 0], [2, 2, 0], [1, 0, 0], [2, 2, 1]]), _REDUCTIONS),
            *(
                form(*_NOT_FINITE, **options).having(torch_gradient=False)
                for options in _REDUCTIONS
            ),
            *reductions(COLUMNS, [("prod", False), ("mean", True), ("amin", False)]),
        ],
        _errors_of_scatter_reduce,
        lambda jax, x, i, s: x.at[i, jax.numpy.arange(3)].multiply(s),
    ),
)
