"""Samples of ops that read elements by indices: gather, getitem, take and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, Array, Reach, written
from conformance.cases._forms import (
    COLUMN,
    COLUMNS,
    EVERY_DTYPE,
    INDEX,
    NO_INDEX,
    ONE,
    POINT,
    SCALAR,
    SQUARE,
    THREE,
    WRAPPED,
    M,
    V,
    at,
    drawn,
    normal,
    small,
    spread,
    unlike_torch,
)
from conformance.cases.table import Call, Draw, ErrorInput, Form, OpInfo, Sample, form, refused


def _reading(
    name: str, call: Call, arrays: tuple[Array, ...], reach: Reach, **options: Any
) -> Sample:
    """Returns a sample of a read, whose gradient adds to each element that ``reach`` reads."""
    return Sample(
        name=name,
        call=call,
        arrays=arrays,
        ordered=reach,
        wrt=0,
        ordered_gradient=lambda ct, x, *index: written(np.zeros_like(x), index, ct, reach),
        **options,
    )


def _gather(d: Draw) -> Iterator[Sample]:
    """Yields a number, one dimension, and two dimensions."""
    number = (np.ones((), np.float32), np.zeros((), np.int32))
    yield _reading("number", lambda ns, x, i: ns.gather(x, 0, i), number, lambda x, i: x)
    for lanes in ((), (d.lanes,)):
        yield _reading(
            f"{len(lanes) + 1}d",
            lambda ns, x, i: ns.gather(x, 0, i),
            (d.values((d.few, *lanes), np.float32), d.indices((d.many, *lanes))),
            lambda x, i: np.take_along_axis(x, i, 0),
        )


def _getitem(d: Draw) -> Iterator[Sample]:
    """Yields an array of indices, a list with two arrays around a slice, and slices alone."""
    yield _reading(
        "array",
        lambda ns, x, i: ns.getitem(x, i),
        (d.values((d.few, d.lanes), np.float32), d.indices((d.many,))),
        lambda x, i: x[i],
        facts={"index_is_list": True},
    )
    yield _reading(
        "list_of_arrays",
        lambda ns, x, i, j: ns.getitem(x, [i, slice(1, None), j]),
        (
            d.values((2, 4, d.few), np.float32),
            d.indices((d.many // 50, 1), 2) - 1,  # Negative indices count from the end.
            d.indices((d.some,)),
        ),
        lambda x, i, j: x[i, 1:, j],
        facts={"index_is_list": True},
    )
    yield _reading(
        "slices",
        lambda ns, x: ns.getitem(x, (slice(None, None, 2), None, -1, ...)),
        (d.values((d.few, 4, d.lanes), np.float32),),
        lambda x: x[::2, None, -1],
        facts={"index_is_list": False},
    )


def _index_select(d: Draw) -> Iterator[Sample]:
    """Yields rows along the first dimension, for each dtype that has a gradient."""
    for name in ("floating", "narrow"):
        yield _reading(
            name,
            lambda ns, x, i: ns.index_select(x, 0, i),
            (d.values((d.few, d.lanes), DTYPES[name]), d.indices((d.many,))),
            lambda x, i: x[i],
        )


def _take(d: Draw) -> Iterator[Sample]:
    """Yields elements of two dimensions, with indices from both ends."""
    yield _reading(
        "2d",
        lambda ns, x, i: ns.take(x, i),
        (d.values((2, d.few), np.float32), d.indices((2, d.many), 2 * d.few) - d.few),
        lambda x, i: x.reshape(-1)[i],
    )


def _take_along_dim(d: Draw) -> Iterator[Sample]:
    """Yields a read along a dimension while another is broadcast, and a read of all elements."""
    yield _reading(
        "repeated",
        lambda ns, x, i: ns.take_along_dim(x, i, 1),
        (d.values((1, d.few, d.lanes), np.float32), d.indices((5, d.many // 5, d.lanes)) - 1),
        lambda x, i: np.take_along_axis(np.broadcast_to(x, (5, *x.shape[1:])), i % d.few, 1),
    )
    yield _reading(
        "flat",
        lambda ns, x, i: ns.take_along_dim(x, i),
        (d.values((2, d.few), np.float32), d.indices((2, d.many), 2 * d.few)),
        lambda x, i: x.reshape(-1)[i.reshape(-1)],
    )


def _repeat_interleave(d: Draw) -> Iterator[Sample]:
    """Yields a number of repetitions for each row, and one number for all elements."""
    # Some counts are zero, and one is large.
    repeats = np.bincount(np.minimum(d.indices((d.many,)), 3), minlength=d.few).astype(np.int32)
    yield _reading(
        "array",
        lambda ns, x, r: ns.repeat_interleave(x, r, 0, output_size=d.many),
        (d.values((d.few, d.lanes), np.float32), repeats),
        lambda x, r: np.repeat(x, r, 0),
    )
    yield _reading(
        "number",
        lambda ns, x: ns.repeat_interleave(x, d.many),
        (d.values((d.few,), np.float32),),
        lambda x: np.repeat(x, d.many),
    )


#: An array to index, and parts of its subscripts.
NUMBERED = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
PAIR, OF_TWO = at(0, 1), np.array([[0], [1], [1]])
_MASK = np.random.default_rng(0).random((3, 4)) < 0.5
_PARTS: list[Any] = [0, -1, slice(None), slice(0, 9, 2), None, True, False, [0, 1], ...]
_PARTS += [PAIR, OF_TWO, at(-1, 0), np.array(1), np.array(-2)]


def subscripts(parts: Sequence[Any], count: int, longest: int) -> Iterator[tuple[Any, ...]]:
    """Yields drawn tuples of parts, with one ellipsis at most."""
    rng = np.random.default_rng(count)
    for _ in range(count):
        subscript = [parts[i] for i in rng.integers(len(parts), size=rng.integers(1, longest + 1))]
        if sum(part is ... for part in subscript) < 2:
            yield tuple(subscript)


def _forms_of_getitem() -> Iterator[Form]:
    """Yields subscripts of all kinds, some of which are refused."""
    yield from (form(np.float32(3), expression) for expression in ((), ..., None, True, False))
    for index in (NO_INDEX, (slice(None), at(0, 1)), slice(1, 5)):
        yield form(normal(0, 3), index)
    yield form(normal(2, 2, 2, 2, 2), (..., at(0, 1), at(1, 0)))
    for expression in (
        np.int64(1),
        slice(1, 0),
        (..., [[1, -2, 0]], 1),
        ([0, 1], slice(None), [[1], [2]]),
        (slice(None), [True, False, True]),
        (slice(None), _MASK, at(1)),
        (..., NUMBERED[0, 0] % 3 > 1),
        NUMBERED > 50,
        *subscripts(_PARTS, 60, 5),
    ):
        yield form(NUMBERED, expression)
    yield form(THREE, WRAPPED).named()
    yield form(spread(3, 2, 3), (WRAPPED, slice(None), WRAPPED[::-1])).named("two-arrays")
    yield form(THREE, (slice(None), np.array(-2))).named("int")
    yield form(THREE, (INDEX[:3, None], INDEX[:3]))


_PAIRS = np.array([[2, 1], [0, 2], [2, 0], [1, 2]])


def _forms_of_take_along_dim() -> Iterator[Form]:
    rng, x = np.random.default_rng(0), normal(2, 3, 4)
    for dim, length in [(0, 5), (1, 1), (-1, 7)]:
        shape = [length if axis == dim % 3 else n for axis, n in enumerate(x.shape)]
        # An index that is broadcast along some dimensions.
        for stays in ([0, 1, 2], [dim % 3]):
            lengths = [n if axis in stays else 1 for axis, n in enumerate(shape)]
            yield form(x, rng.integers(0, x.shape[dim], lengths), dim)
    repeated = rng.integers(0, 3, (2, 7, 4))
    yield form(x[:1], repeated, -2)
    yield form(x[:1, :, :1], repeated, 1)
    yield form(x, rng.integers(0, 24, (3, 2)))
    yield form(np.float32(3), np.array(0))
    yield form(x[:0], np.zeros((1, 3, 1), int), 1)
    index = np.array([[2], [0], [1]])
    yield from (form(small((3, 2), dtype), index, 0) for dtype in EVERY_DTYPE)
    yield form(THREE[:, :1], COLUMNS, 0).named()


def _forms_of_repeat_interleave() -> Iterator[Form]:
    x, each = normal(2, 4, 3), np.array([2, 0, 3, 1])
    yield form(x, each, 1)
    yield form(x, each, -2, output_size=6)
    yield form(x, np.arange(24) % 3)
    for dim in (None, -1):
        for repeats in (0, 2, np.array(2), each[:1]):
            yield form(x, repeats, dim)
    yield from (form(small((3, 2), dtype), 2, 0) for dtype in EVERY_DTYPE)
    yield form(np.float32(3), 2)
    yield form(x[:0], each[:1], 0)
    yield from (form(each), form(NO_INDEX))
    yield form(THREE, np.array([1, 0, 5]), 0, output_size=6).named()


def _errors_of_gather() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "as many dimensions", M, 0, ONE)
    yield refused(RuntimeError, "as many dimensions", M, 0, POINT)
    yield refused(RuntimeError, "as many dimensions", M, 1, POINT)
    yield refused(RuntimeError, "as many dimensions", SCALAR, 0, SQUARE)
    yield refused(RuntimeError, "index [1, 3] to be no larger", M, 0, np.zeros((1, 3), int))
    yield refused(RuntimeError, "index 3 is out of bounds", V, 0, at(0, 3))
    yield refused(RuntimeError, "position [0]", V, 0, at(-1))
    yield refused(RuntimeError, "none is allowed", V[:0], 0, ONE)


def _errors_of_getitem() -> Iterator[ErrorInput]:
    yield refused(IndexError, "index 3 is out of bounds for dimension 0 with size 3", M, 3)
    yield refused(IndexError, "index -4 is out of bounds", M, -4)
    yield refused(IndexError, "for dimension 1 with size 2", M, (0, 2))
    yield refused(IndexError, "at position [1] of argument 'indices'", M, at(0, 3))
    yield refused(IndexError, "of argument 'indices[1]'; allowed are -2", M, (at(0), at(-3)))
    yield refused(IndexError, "array of dimension 2 (got 3)", M, (0, 0, 0))
    yield refused(IndexError, "(got 3)", M, (0, M > 0))
    yield refused(IndexError, "array of dimension 0", SCALAR, slice(None))
    yield refused(IndexError, "0", SCALAR, 0)
    yield refused(IndexError, "of type float; allowed are ints", M, 1.0)
    yield refused(IndexError, "of type set", M, {0})
    yield refused(IndexError, "of float64; allowed are", M, at(1.0))
    yield refused(IndexError, "float32", M, np.float32(1))
    yield refused(IndexError, "int16", M, ONE.astype(np.int16))
    yield refused(IndexError, "complex64", M, ONE.astype(np.complex64))
    yield refused(IndexError, "with shapes [2], [3]", M, (at(0, 1), at(0, 1, 1)))
    yield refused(IndexError, "mask [4] does not match", M, np.ones(4, bool))
    yield refused(IndexError, "(got 3)", M, (slice(None), M > 0))
    yield refused(IndexError, "none is allowed", M[:0], at(0))
    yield refused(ValueError, "greater than zero", M, slice(None, None, -1))
    yield refused(ValueError, "zero", M, slice(None, None, 0))
    yield refused(TypeError, "slice(0.5, 1, None)", M, slice(0.5, 1))
    yield refused(ValueError, "indices[0]", M, ([[0, 1], [1]], 0))
    yield from unlike_torch(
        # PyTorch takes numbers of a list for ints.
        refused(IndexError, "float64", M, [0.5]),
        refused(IndexError, "str", M, "a"),
        # No element is read, so PyTorch does not check the index.
        refused(IndexError, "dimension 1 with size 2", M[:0], (slice(None), at(2))),
    )


def _errors_of_index_select() -> Iterator[ErrorInput]:
    yield refused(IndexError, "to be a vector", V, 0, SQUARE)
    yield refused(IndexError, "index 3 is out of bounds", V, 0, at(0, 3))
    yield refused(IndexError, "index -1 is out of bounds", V, 0, at(-1))
    yield refused(RuntimeError, "only 1 value, got 2", SCALAR, 0, at(0, 0))
    yield refused(IndexError, "out of bounds", SCALAR, 0, at(1))


def _errors_of_take() -> Iterator[ErrorInput]:
    yield refused(IndexError, "index 3 is out of bounds for an input of 3 elements", V, at(3))
    yield refused(IndexError, "at position [1]", V, at(0, -4))
    yield refused(IndexError, "none is allowed", V[:0], at(0))
    yield refused(RuntimeError, "for index but got: bool", V, at(True))


def _errors_of_take_along_dim() -> Iterator[ErrorInput]:
    yield refused(IndexError, "Dimension specified as 0", SCALAR, POINT, 0)
    yield refused(RuntimeError, "same number of dimensions, but got 2", M, at(0), 0)
    yield refused(RuntimeError, "(2) at non-singleton dimension 0", M, COLUMN[:2], 1)
    yield refused(RuntimeError, "index 3 is out of bounds for an input of 3", V, at(3))
    yield refused(RuntimeError, "allowed are 0 to 2", V, at(-1))
    yield refused(RuntimeError, "int32/int64 for indices but got: float64", V, at(0.0))
    yield from unlike_torch(
        # On a CPU, PyTorch takes these indices modulo the size.
        refused(RuntimeError, "index 2 is out of bounds", M, COLUMN + 2, 1),
        refused(RuntimeError, "allowed are -2 to 1", M, COLUMN - 3, 1),
    )


def _errors_of_repeat_interleave() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "repeats must be non-negative, but got -1", V, -1)
    yield refused(RuntimeError, "got -2 at position 1", V, at(1, -2, 1))
    yield refused(RuntimeError, "shape [2] and 3 along dimension 0", V, at(1, 2))
    yield refused(RuntimeError, "shape [1, 3]", V, at(1, 2, 0)[None])
    yield refused(NotImplementedError, "float64", V, at(1.0))
    yield refused(NotImplementedError, "bool", V, at(True))
    yield refused(TypeError, "not float", V, 1.0)
    yield refused(TypeError, "not bool", V, True)
    yield refused(TypeError, "not list", V, [1, 2, 0])
    yield refused(IndexError, "Dimension", SCALAR, 2, 0)
    yield refused(RuntimeError, "sum of repeats, 6, but got 5", V, 2, output_size=5)
    yield refused(RuntimeError, "but got 7", V, at(2), output_size=7)
    yield refused(RuntimeError, "got -3", V, at(1, 2, 0), output_size=-3)
    yield refused(NotImplementedError, "float32", V)
    yield refused(RuntimeError, "got shape [1, 2]", at(1, 2)[None])
    yield refused(RuntimeError, "-1 at position 1", at(1, -1))
    yield refused(TypeError, "needs argument 'repeats'", at(1, 2), dim=0)


OPS = (
    OpInfo(
        "gather",
        _gather,
        lambda: [
            *(form(x, dim, index) for x, dim, _, index, _ in drawn()),
            *(form(small((3, 2), dtype), 0, _PAIRS) for dtype in EVERY_DTYPE),
            form(THREE, 0, COLUMNS).named(),
        ],
        _errors_of_gather,
        lambda jax, x, i: jax.numpy.take_along_axis(x, i, axis=0),
    ),
    OpInfo("getitem", _getitem, _forms_of_getitem, _errors_of_getitem, lambda _, x, i: x[i]),
    OpInfo(
        "index_select",
        _index_select,
        lambda: [
            *(form(x, dim, index) for x, dim, index, _, _ in drawn()),
            *(form(small((3, 2), dtype), 0, _PAIRS[:, 0]) for dtype in EVERY_DTYPE),
            form(THREE, 0, INDEX).named(),
        ],
        _errors_of_index_select,
        lambda jax, x, i: jax.numpy.take(x, i, axis=0),
    ),
    OpInfo(
        "repeat_interleave",
        _repeat_interleave,
        _forms_of_repeat_interleave,
        _errors_of_repeat_interleave,
        lambda jax, x, r: jax.numpy.repeat(x, r, axis=0, total_repeat_length=6),
    ),
    OpInfo(
        "take",
        _take,
        lambda: [
            *(
                form(normal(*shape), index)
                for shape in [(2, 3), (), (5,)]
                for index in (np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]]))
            ),
            *(form(small((3, 2), dtype), np.array([2, 0, -1])) for dtype in EVERY_DTYPE),
            form(normal(0, 3), NO_INDEX.reshape(2, 0)),
            form(THREE, 3 * WRAPPED).named(),
        ],
        _errors_of_take,
        lambda jax, x, i: jax.numpy.take(x, i),
    ),
    OpInfo(
        "take_along_dim",
        _take_along_dim,
        _forms_of_take_along_dim,
        _errors_of_take_along_dim,
        lambda jax, x, i: jax.numpy.take_along_axis(x, i, axis=0),
    ),
)
