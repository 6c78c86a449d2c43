"""Arrays of forms, and forms that several ops share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import Array
from conformance.cases.table import ErrorInput, Form, form

INF, NAN = float("inf"), float("nan")
FLOATS = (np.float16, bfloat16, np.complex64)
INTEGERS = (np.int8, np.uint8, np.int32)
EVERY_DTYPE = (*FLOATS, *INTEGERS, bool)
#: Shapes, a dimension of each, and a number of updates along it.
SHAPES: Sequence[tuple[tuple[int, ...], int, int]] = (
    ((2, 3, 4), 1, 5),
    ((), -1, 1),
    ((5,), -1, 8),
    ((3, 4), 0, 7),
    ((3, 4), -1, 6),
    ((2, 1, 3, 2, 2), -3, 4),
)
NO_INDEX = np.zeros(0, np.int64)


#: Arrays of calls that are refused: a vector, a matrix and a number.
V, M, SCALAR = np.zeros(3, np.float32), np.zeros((3, 2), np.float32), np.array(5, np.float32)
#: An index of one element, of no dimension, of two, and a column of indices.
ONE, POINT, SQUARE, COLUMN = (np.zeros(shape, np.int64) for shape in (1, (), (1, 1), (3, 1)))
COMPLEX, BOOLS = np.ones(2, np.complex64), np.ones(2, bool)


def at(*values: Any) -> Array:
    """Returns an index."""
    return np.array(values)


def ones(*shape: int, dtype: Any = np.float32) -> Array:
    """Returns ones, of float32 if no other dtype is asked for."""
    return np.ones(shape, dtype)


def unlike_torch(*errors: ErrorInput) -> Iterator[ErrorInput]:
    """Yields calls that PyTorch takes, has not, or refuses by another exception."""
    return (dataclasses.replace(each, form=each.form.having(torch=False)) for each in errors)


def normal(*shape: int, seed: int = 0) -> Array:
    """Returns normal numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def small(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    """Returns small whole numbers, of which a sum is exact in each dtype."""
    numbers = np.random.default_rng(seed).integers(0, 4, shape)
    return (numbers * (1 + 1j) if dtype is np.complex64 else numbers).astype(dtype)


def spread(*shape: int, seed: int = 7) -> Array:
    """Returns normal numbers of many magnitudes; their sum depends on the order of additions."""
    rng = np.random.default_rng((seed, *shape))
    return np.asarray(rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape), np.float32)


def near_one(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Returns numbers of both signs near 1 and -1, whose products do not overflow."""
    rng = np.random.default_rng(seed)
    value = np.exp(rng.standard_normal(shape) / 50) * rng.choice([-1, 1], shape)
    if dtype is np.complex64:
        value = value * np.exp(1j * rng.standard_normal(shape))
    return np.asarray(value, dtype)


def apart(*shape: int) -> Array:
    """Returns numbers that differ by 1/16 at least, so that a small step keeps their order."""
    order = np.random.default_rng(0).permutation(int(np.prod(shape)))
    return (order / 16 + 0.5).astype(np.float32).reshape(shape)


#: Twenty indices from 0 to 2, each of them several times; the same for three columns.
INDEX = np.random.default_rng(7).integers(0, 3, 20)
COLUMNS = np.random.default_rng(8).integers(0, 3, (20, 3))
#: Indices that count from the end too.
WRAPPED = np.random.default_rng(9).integers(-3, 3, 20)
THREE, TWENTY = spread(3, 3), spread(20, 3)
#: Factors whose products stay in range.
THREE_FACTORS, TWENTY_FACTORS = near_one((3, 3)), near_one((20, 3), seed=1)
#: Numbers of which no two are equal.
THREE_APART, TWENTY_APART = apart(3, 3) + np.float32(1 / 32), apart(20, 3)


def drawn() -> Iterator[tuple[Array, int, Array, Array, Array]]:
    """Yields an input, a dimension, an index of its slices, one of its elements, and a source."""
    for shape, dim, count in SHAPES:
        rng = np.random.default_rng((count, *shape))
        longer = list(shape)
        if shape:
            longer[dim] = count
        size = shape[dim] if shape else 1
        of_slices, of_elements = rng.integers(0, size, count), rng.integers(0, size, longer)
        yield normal(*shape), dim, of_slices, np.asarray(of_elements), normal(*longer, seed=1)


def by_slices(*keywords: Mapping[str, Any], dtypes: Sequence[Any] = ()) -> Iterator[Form]:
    """Yields writes of slices: all shapes, each option, dtypes, numbers, and empty arrays."""
    for x, dim, index, _, source in drawn():
        yield form(x, dim, index, source, **keywords[0])
    yield from _of_two_columns(np.array([2, 0, 2, 1]), keywords[1:], keywords, dtypes)
    one = np.zeros(1, np.int64)
    for options in keywords[:2]:
        yield form(np.float32(1), 0, one[0], np.float32(2), **options)
        yield form(np.ones(1, np.float32), 0, one[0], np.float32(2), **options)


def by_elements(*keywords: Mapping[str, Any], dtypes: Sequence[Any] = ()) -> Iterator[Form]:
    """Yields the same of writes of elements, whose index may be smaller than the source."""
    for x, dim, _, index, source in drawn():
        yield form(x, dim, index, source, **keywords[0])
    index, x = np.array([[2, 2], [0, 1], [2, 2], [1, 0]]), normal(3, 2)
    yield from _of_two_columns(index, keywords, keywords, dtypes)
    yield form(x, 0, index[:, :1], normal(4, 2)[:, :1], **keywords[0])
    for options in keywords[:2]:
        yield form(np.float32(1), 0, np.zeros(1, int), np.ones(1, np.float32), **options)
        yield form(x[:, 0], 0, np.array(1), np.float32(2), **options)


def _of_two_columns(
    index: Array,
    with_floats: Sequence[Mapping[str, Any]],
    keywords: Sequence[Mapping[str, Any]],
    dtypes: Sequence[Any],
) -> Iterator[Form]:
    for options in with_floats:
        yield form(normal(3, 2), 0, index, normal(4, 2), **options)
    for dtype in dtypes:
        for options in keywords[::3] if len(keywords) > 4 else keywords:
            # PyTorch multiplies complex numbers in any order.
            if dtype is not np.complex64 or options.get("reduce", "sum") in ("sum", "mean", "add"):
                yield form(small((3, 2), dtype), 0, index, small((4, 2), dtype, 1), **options)


def from_longer(*keywords: Mapping[str, Any]) -> Iterator[Form]:
    """Yields writes whose source is longer than the index; PyTorch has no gradient of them."""
    for x, dim, _, index, source in drawn():
        if index.ndim:
            yield form(x, dim, index[..., :1], source, **keywords[0]).having(torch_gradient=False)
    for options in keywords:
        longer = form(normal(3, 2), 0, NO_INDEX, normal(4), **options)
        yield longer.having(torch_gradient=False)
        longer = form(normal(3), 0, np.array(1), np.array([2, 7], np.float32), **options)
        yield longer.having(torch_gradient=False)


def without_gradient(*forms: Form) -> Iterator[Form]:
    """Yields forms of which PyTorch has no gradient, or another one."""
    return (each.having(torch_gradient=False) for each in forms)


def reductions(op_index: Array, cases: Sequence[tuple[str, bool]]) -> Iterator[Form]:
    """Yields forms of reductions to differentiate; extremes are of distinct numbers."""
    arrays = {
        "prod": (THREE_FACTORS, TWENTY_FACTORS),
        "amax": (THREE_APART, TWENTY_APART),
        "amin": (THREE_APART, TWENTY_APART),
    }
    for reduce, include_self in cases:
        x, source = arrays.get(reduce, (THREE, TWENTY))
        yield form(x, 0, op_index, source, reduce, include_self=include_self).named(
            reduce if include_self else f"{reduce}-without-self", same_bits=reduce != "mean"
        )


#: The sizes of an input by its number of dimensions; the second is too small for some windows.
SIZES: Mapping[int, Sequence[tuple[int, ...]]] = {
    1: [(11,), (4,)],
    2: [(7, 6), (4, 9)],
    3: [(5, 4, 6), (4, 4, 3)],
}
#: The number of calls by the number of dimensions. Another number of them adds little code.
COUNT = {1: 5, 2: 6, 3: 4}
#: The lengths of a side of a form that is transformed. Forms of two dimensions alone have a name.
SIDES: Mapping[int, tuple[int, ...]] = {1: (7,), 2: (5, 4), 3: (4, 3, 4)}


def numbers(rng: np.random.Generator, most: int, dims: int) -> tuple[int, ...]:
    """Returns a number from 1 to below ``most`` for each dimension."""
    return tuple(int(number) for number in rng.integers(1, most, dims))


def windows(dims: int, *, dilated: bool) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Yields shapes and the first arguments of pools of windows."""
    rng = np.random.default_rng(dims)
    for number in range(COUNT[dims]):
        kernel, stride, dilation = (numbers(rng, most, dims) for most in (5, 5, 4))
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
        arguments: list[Any] = [kernel, stride if number % 4 else None, padding]
        arguments += [dilation] * dilated
        if number % 3 == 0:
            arguments = [kernel[0], stride[0], padding[0], *[dilation[0]] * dilated]
        shape = (2, 3, *SIZES[dims][number % 5 == 4])[number % 2 :]
        yield shape, (*arguments, number % 2 == 0)


def adaptive(
    dims: int, array: Callable[[tuple[int, ...]], Array], **options: Any
) -> Iterator[Form]:
    """Yields forms of adaptive pools."""
    rng = np.random.default_rng(dims)
    for number in range(COUNT[dims]):
        sizes, lengths = numbers(rng, 9, dims), list[Any](numbers(rng, 11, dims))
        if dims > 1 and number % 3 == 0:
            lengths[number % dims] = None
        size = max(filter(None, lengths)) if number % 5 == 1 else tuple(lengths)
        yield form(array((2, 3, *sizes)[number % 2 :]), size, **options)
    yield form(array((2, 3, *SIDES[dims])), 0, **options).having(torch_gradient=False)


def pooled(dims: int, *arguments: Any, same_bits: bool = True) -> Form:
    """Returns a form of a pool, with a name in two dimensions."""
    pool = form(apart(2, 3, *SIDES[dims]), *arguments)
    return pool.having(name="" if dims == 2 else None, same_bits=same_bits)
