"""The common form of a scatter on a GPU: rows of numbers, each added to one destination."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._core.numerics import fence
from impl._core.replicas import Replicas
from impl._exact import grid
from impl._exact.grid import Digits

#: Beyond so many elements, numbers of rows may not fit 32 bits.
_MOST = 2**31 - 2**18


def keys_of(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    numbers: ScatterDimensionNumbers,
    mode: Any,
) -> jax.Array | None:
    """Returns the row that each update of a scatter is added to, or None for another form.

    The form has indices for the first axes of the operand, and windows that are all of the others.

    Args:
        operand: The array that is added to.
        indices: As ``lax.scatter_add`` takes them.
        updates: The windows.
        numbers: The dimension numbers.
        mode: The treatment of windows that are out of bounds.

    Returns:
        int32, shape [n]; the number of rows for an update that is dropped.
    """
    indexed = tuple(numbers.scatter_dims_to_operand_dims)
    first = len(indexed)
    others = tuple(range(updates.ndim - operand.ndim + first, updates.ndim))
    is_of_rows = (
        first > 0
        and indexed == tuple(range(first)) == tuple(numbers.inserted_window_dims)
        and not numbers.operand_batching_dims
        and tuple(numbers.update_window_dims) == others
        and updates.shape[updates.ndim - len(others) :] == operand.shape[first:]
    )
    size = math.prod(operand.shape[:first])
    if not is_of_rows or max(operand.size, updates.size) > _MOST or updates.size == 0:
        return None
    parts = indices.reshape(-1, first)
    rows = lax.full((parts.shape[0],), 0, np.int32)
    inside = lax.full(rows.shape, True)
    for axis, length in enumerate(operand.shape[:first]):
        part = parts[:, axis]
        if GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP:
            part = part.clip(0, length - 1)
        inside = lax.bitwise_and(inside, (part >= 0) & (part < length))
        rows = rows * length + part.astype(np.int32)
    return lax.select(inside, rows, lax.full_like(rows, size))


def add_rows(
    operand: jax.Array,
    keys: jax.Array,
    updates: jax.Array,
    digits: Digits,
    dtype: jax.typing.DTypeLike,
    *,
    unique: bool,
) -> jax.Array:
    """Returns the operand with rows added to it, in the spec's order ``exact``.

    Args:
        operand: float32 or float64, any shape whose first axes are the destinations.
        keys: As ``keys_of`` returns them.
        updates: The dtype of ``operand``, of any shape with as many elements as keys and width.
        digits: The form of the digits of the terms.
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
    # What is dropped may take any exponent.
    own = exponent.at[keys].get(mode="clip")
    pairs = zip(digits.split(initial, exponent), digits.split(updates, own), strict=True)
    sums = [replicas.scatter(total, digit, "add") for total, digit in pairs]
    # XLA would move the addition of two digits into the operand of a scatter.
    return digits.total(list(map(fence, sums)), exponent, dtype).reshape(operand.shape)
