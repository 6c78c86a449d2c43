"""A scatter of any form as a scatter of rows, with sums in int64: the exact scatter of one GPU.

**Rows.** The last axes that each window covers whole form a row, and the other axes have one
coordinate for each update. A row of the operand then has one number, and no array is transposed.
For an operand of shape [5, 4, 8] and windows of shape [1, 1, 8], a row has 8 elements, and the
update at (i, j) goes to row 4 * i + j. The number 20 stands for an update that is dropped.

**Integers.** Digits (``impl._exact.sums.grid``) are added as int64. XLA's scatter adds an int64 to
memory by one instruction, as it does a float64, and an int64 holds the sum of 2**33 digits of 30
bits. So a float32 has one digit, however many terms there are.

**Infinities and NaNs** have no digit. A destination with such a term has the exponent 129, or 1025
in float64. The int64 of this destination then counts infinities instead of adding digits: positive
ones in the low 32 bits, negative ones in the high 32 bits. A NaN counts as one of each::

    terms of a destination      int64                  result
    1.5, inf, inf               0x00000000_00000002    inf
    -inf                        0x00000001_00000000    -inf
    inf, -inf                   0x00000001_00000001    NaN
    NaN, 2.0                    0x00000001_00000001    NaN
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._exact.arithmetic import finite_or_zero
from impl._exact.sums import grid
from impl._exact.sums.grid import Digits
from impl._families.replicas import Replicas

#: Larger arrays may need row numbers of 64 bits.
_MOST = 2**31 - 2**18
#: The number of bits of the count of positive infinities; the count of negative infinities is above
#: them.
_COUNT = 32


def keys_of(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    numbers: ScatterDimensionNumbers,
    mode: Any,
) -> jax.Array | None:
    """Returns, for each row of updates, the number of the operand's row that it is added to.

    Args:
        operand: The array that is added to.
        indices: As ``lax.scatter_add`` takes them.
        updates: The windows.
        numbers: The dimension numbers.
        mode: The treatment of windows that are out of bounds.

    Returns:
        int32, shape [n]. An update that is dropped has the number of rows of the operand. None if
        the arrays are too large, or if there are no updates.
    """
    if max(operand.size, updates.size) > _MOST or updates.size == 0:
        return None
    indexed = list(numbers.scatter_dims_to_operand_dims)
    batch = list(numbers.operand_batching_dims)
    hidden = {*numbers.inserted_window_dims, *batch}
    windowed = [axis for axis in range(operand.ndim) if axis not in hidden]
    window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    row_rank = _row_rank(operand, updates, indexed, window)
    outer = updates.shape[: updates.ndim - row_rank]
    index_axes = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
    rows, inside = lax.full(outer, 0, np.int32), lax.full(outer, True)
    for axis, length in enumerate(operand.shape[: operand.ndim - row_rank]):
        coordinate = lax.full(outer, 0, np.int32)
        if axis in indexed:
            start = indices[..., indexed.index(axis)]
            last = length - (updates.shape[window[axis]] if axis in window else 1)
            if GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP:
                start = start.clip(0, last)
            is_inside = (start >= 0) & (start <= last)
            inside = lax.bitwise_and(inside, lax.broadcast_in_dim(is_inside, outer, index_axes))
            coordinate = lax.broadcast_in_dim(start.astype(np.int32), outer, index_axes)
        if axis in batch:
            batch_axis = numbers.scatter_indices_batching_dims[batch.index(axis)]
            coordinate = lax.broadcasted_iota(np.int32, outer, index_axes[batch_axis])
        if axis in window:
            offset = lax.broadcasted_iota(np.int32, outer, window[axis])
            coordinate = lax.add(coordinate, offset)
        rows = lax.add(lax.mul(rows, lax.full_like(rows, length)), coordinate)
    size = math.prod(operand.shape[: operand.ndim - row_rank])
    return lax.select(inside, rows, lax.full_like(rows, size)).reshape(-1)


def _row_rank(
    operand: jax.Array, updates: jax.Array, indexed: Sequence[int], window: dict[int, int]
) -> int:
    """Returns how many axes, from the last on, each window covers whole."""
    count = 0
    while count < operand.ndim:
        axis, update_axis = operand.ndim - 1 - count, updates.ndim - 1 - count
        is_whole = window.get(axis) == update_axis and axis not in indexed
        if not is_whole or operand.shape[axis] != updates.shape[update_axis]:
            break
        count += 1
    return count


def add_rows(
    operand: jax.Array,
    keys: jax.Array,
    updates: jax.Array,
    dtype: jax.typing.DTypeLike,
    *,
    unique: bool,
) -> jax.Array:
    """Returns the operand with rows added to it, in the spec's order ``exact``.

    Args:
        operand: float32 or float64, any shape whose first axes are the destinations.
        keys: As ``keys_of`` returns them.
        updates: The dtype of ``operand``, of any shape, with a row of elements for each key.
        dtype: The dtype of the result.
        unique: Whether no two updates have one destination.

    Returns:
        The shape of ``operand``.
    """
    width = updates.size // keys.shape[0]
    size = operand.size // width
    shape = () if width == 1 else (width,)
    initial, updates = operand.reshape(size, *shape), updates.reshape(-1, *shape)
    replicas = Replicas.of(keys, size, width=width, unique=unique)
    most, added = (grid.exponents(lax.abs(value)) for value in (initial, updates))
    exponent = replicas.scatter(most, added, "max")
    # An update that is dropped may take any exponent.
    update_exponent = exponent.at[keys].get(mode="clip")
    pairs = zip(_digits(initial, exponent), _digits(updates, update_exponent), strict=True)
    sums = [replicas.scatter(total, digit, "add") for total, digit in pairs]
    return value_of_integers(sums, exponent, dtype, keys.shape[0] + 1).reshape(operand.shape)


def _digits(terms: jax.Array, exponent: jax.Array) -> list[jax.Array]:
    """Returns the digits of terms, int64; the first counts infinities where a term is special."""
    digits = Digits.of(terms.dtype, 1).split(finite_or_zero(terms), exponent)
    first, *others = (lax.convert_element_type(digit, np.int64) for digit in digits)
    return [_with_infinities(terms, exponent, first), *others]


def digits_in_kernel(terms: jax.Array, exponent: jax.Array) -> list[jax.Array]:
    """Returns the digits of terms, int64, as ``add_rows`` adds them, by operations of a kernel.

    A kernel has no rounding away from zero, so the digits are rounded by conversions to integers.

    Args:
        terms: float32 or float64, any shape.
        exponent: The exponents of their destinations, int32, of that shape.
    """
    digits = Digits.of(terms.dtype, 1)
    units = digits.in_units(finite_or_zero(terms), exponent)
    integers = [_nearest(units)]
    for _ in range(digits.number - 1):
        rest = lax.sub(units, lax.convert_element_type(integers[-1], np.float64))
        units = lax.mul(rest, lax.full_like(rest, 2.0**digits.width))
        integers.append(_nearest(units))
    return [_with_infinities(terms, exponent, integers[0]), *integers[1:]]


def _nearest(units: jax.Array) -> jax.Array:
    """Returns the nearest integer; of two integers, the one farther from 0."""
    # A conversion to integers drops the fraction. The subtraction of the integer is exact.
    whole = lax.convert_element_type(units, np.int64)
    rest = lax.sub(units, lax.convert_element_type(whole, np.float64))
    up = lax.convert_element_type(lax.ge(rest, lax.full_like(rest, 0.5)), np.int64)
    down = lax.convert_element_type(lax.le(rest, lax.full_like(rest, -0.5)), np.int64)
    return lax.add(whole, lax.sub(up, down))


def _with_infinities(terms: jax.Array, exponent: jax.Array, first: jax.Array) -> jax.Array:
    """Returns the first digits, or counts of infinities for special destinations."""
    infinity = lax.full_like(terms, np.inf)
    one, none = lax.full_like(first, 1), lax.full_like(first, 0)
    # A comparison with a NaN is false.
    positive = lax.select(lax.lt(terms, infinity), none, one)
    negative = lax.select(lax.gt(terms, lax.neg(infinity)), none, one)
    negative = lax.shift_left(negative, lax.full_like(negative, _COUNT))
    special = _is_special(exponent, terms.dtype)
    return lax.select(special, lax.add(positive, negative), first)


def _is_special(exponent: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns whether a destination is special: one of its terms is an infinity or a NaN."""
    return lax.ge(exponent, lax.full_like(exponent, 1025 if grid.is_long(dtype) else 129))


def value_of_integers(
    sums: Sequence[jax.Array], exponent: jax.Array, dtype: jax.typing.DTypeLike, count: int
) -> jax.Array:
    """Returns the values of sums of digits, rounded once.

    Args:
        sums: The sums of each digit, int64.
        exponent: The exponents of their destinations, int32.
        dtype: The dtype of the result.
        count: The greatest number of terms of a sum.
    """
    digits, parts = Digits.of(dtype, 1), list(sums)
    part_exponent = exponent
    if digits != Digits.of(dtype, count):
        # A float64 does not hold the sum of the one digit, so its two halves become two digits.
        digits = dataclasses.replace(digits, number=2)
        width = lax.full_like(parts[0], digits.width)
        low = lax.bitwise_and(parts[0], lax.full_like(parts[0], (1 << digits.width) - 1))
        parts = [lax.shift_right_arithmetic(parts[0], width), low]
        part_exponent = lax.add(exponent, lax.full_like(exponent, digits.width))
    elif len(parts) > 1:
        width = lax.full_like(parts[1], digits.width)
        half = lax.full_like(parts[1], 1 << (digits.width - 1))
        over = lax.shift_right_arithmetic(lax.add(parts[1], half), width)
        parts = [lax.add(parts[0], over), lax.sub(parts[1], lax.shift_left(over, width))]
    wide = [lax.convert_element_type(part, np.float64) for part in parts]
    finite = digits.value_of_digits(wide, part_exponent, dtype)
    counts, none = sums[0], lax.full_like(sums[0], 0)
    positive = lax.bitwise_and(counts, lax.full_like(counts, (1 << _COUNT) - 1))
    negative = lax.shift_right_arithmetic(counts, lax.full_like(counts, _COUNT))
    infinity = lax.full_like(finite, np.inf)
    special = lax.select(
        lax.eq(negative, none),
        infinity,
        lax.select(lax.eq(positive, none), lax.neg(infinity), lax.full_like(finite, np.nan)),
    )
    return lax.select(_is_special(exponent, dtype), special, finite)
