"""The kernel that finds the most frequent element of each row, at its first position.

A kernel instance sorts whole rows in its registers by a bitonic network (Batcher, "Sorting networks
and their applications", AFIPS Spring Joint Computer Conference, 1968, 307-314). It then joins
neighbouring parts of the sorted row pair by pair. Of each part it knows the run of equal keys at
either end, and the longest run. For the row 2 1 3 2 3 3:

    sorted          1   2 | 2   3 | 3   3
    joined pairs    1: 1, 2: 1    2: 1, 3: 1    3: 2      a key and the length of its run
    joined again    2 meets 2: its run has 2 keys
    whole row       3 meets 3: its run has 1 + 2 = 3 keys, the longest

Joining is associative, so a tree of any shape gives the same runs.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from impl._families.sort_keys import as_sortable
from impl._kernels._rows import RowTiles, greatest_key, key_dtype, load_keys, longest
from impl._kernels.launch import Launch

#: The number of bytes of the keys that a lane holds of a row.
_LANE_BYTES = 128
#: A row takes at most half of the lanes of an instance. With more, a lane has too few registers.
_FRACTION = 2


def takes(values: jax.Array) -> bool:
    """Returns whether a row of values, shape [rows, n], fits the registers of an instance."""
    return values.shape[1] <= longest(_depth(as_sortable(values))) // _FRACTION


def _depth(values: jax.Array) -> int:
    return _LANE_BYTES // key_dtype(values).itemsize


def first_position(values: jax.Array, *, launch: Launch) -> jax.Array:
    """Finds the lowest position of the most frequent element of each row.

    Of several such elements the least one counts. A NaN equals nothing.

    Args:
        values: Real numbers, shape [rows, n], of which ``takes`` is true.
        launch: How to run.

    Returns:
        int32, shape [rows].
    """
    is_float = jnp.issubdtype(values.dtype, jnp.floating)
    values = as_sortable(values)
    rows, n = values.shape
    tiles = RowTiles(rows, n, _depth(values))

    def kernel(values_ref: Any, out_ref: Any) -> None:
        row, column = tiles.lanes(launch)
        inside = (row < rows)[:, None] & (column < n)[None, :]
        keys = load_keys(launch, values_ref, row[:, None] * n + column[None, :], inside)
        # XLA for a CPU takes too long to compile the network. Any sort gives the same keys.
        ordered = jnp.sort(keys, axis=1) if launch.interpret else in_order(keys)
        target = _most_frequent(ordered, n, members=tiles.depth, is_float=is_float)
        equal = inside & (keys == target[:, None])
        lowest = jnp.min(jnp.where(equal, column[None, :], jnp.int32(n)), axis=1)
        launch.store(out_ref.at[row], lowest, mask=row < rows)

    return launch(
        kernel,
        (tiles.programs,),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        values.reshape(-1),
        name="sort_ordered_frequent",
        num_warps=tiles.warps,
    )


def in_order(keys: jax.Array) -> jax.Array:
    """Sorts rows of a power of two of keys, by a bitonic network.

    Each bit of a column is an axis of two elements, so that the elements that are exchanged are
    neighbours on an axis.
    """
    height, width = keys.shape
    bits = width.bit_length() - 1
    cube = keys.reshape(height, *[2] * bits)
    for size in range(1, bits + 1):
        for bit in reversed(range(size)):
            other = _partner(cube, bits - bit)
            takes_greater = _bit(bit, bits) != _bit(size, bits) if size < bits else _bit(bit, bits)
            cube = jnp.where((cube < other) == (takes_greater == 1), other, cube)
    return cube.reshape(height, width)


def _bit(bit: int, bits: int) -> jax.Array:
    """Returns a bit of the number of each column, of shape [1, 2 or 1, ...]."""
    shape = [1] * (bits + 1)
    shape[bits - bit] = 2
    return jnp.arange(2, dtype=jnp.int32).reshape(shape)


class _Runs(NamedTuple):
    """The runs of equal keys in parts of sorted rows, each of shape [rows, parts].

    Attributes:
        first: The first key of a part.
        head: The length of the run at its beginning, whose keys equal ``first``.
        last: The last key.
        tail: The length of the run at its end, whose keys equal ``last``.
        best: The key of the longest run; of several such runs the least key.
        length: The length of the longest run.
    """

    first: jax.Array
    head: jax.Array
    last: jax.Array
    tail: jax.Array
    best: jax.Array
    length: jax.Array


def _most_frequent(keys: jax.Array, n: int, *, members: int, is_float: bool) -> jax.Array:
    """Returns the most frequent of the first ``n`` keys of each sorted row, shape [rows].

    A lane joins the runs of neighbours, ``members`` of them, and lanes then join theirs.
    """
    height, width = keys.shape
    members = min(members, width)
    blocks = width // members
    first = jnp.arange(height * blocks, dtype=jnp.int32) % blocks * members
    columns = [
        part.reshape(-1) for part in jax.lax.split(keys.reshape(-1, members), [1] * members, 1)
    ]
    runs = [
        _Runs(key, one, key, one, key, one)
        for offset, key in enumerate(columns)
        for one in [(first + offset < n).astype(jnp.int32)]
    ]
    lane = functools.reduce(functools.partial(_joined, is_float=is_float), runs)
    bits = blocks.bit_length() - 1
    cube = _Runs(*(part.reshape(height, *[2] * bits) for part in lane))
    for bit in range(bits):
        other = _Runs(*(_partner(part, bits - bit) for part in cube))
        is_left = _bit(bit, bits) == 0
        sides = (
            _Runs(*(jnp.where(is_left, *pair) for pair in zip(*order, strict=True)))
            for order in ((cube, other), (other, cube))
        )
        cube = _joined(*sides, is_float=is_float)
    # All lanes of a row have the same runs by now.
    return jnp.max(cube.best.reshape(height, blocks), axis=1)


def _partner(cube: jax.Array, axis: int) -> jax.Array:
    """Returns, for each of two elements along an axis, the other one: their sum less the first."""
    return jnp.sum(cube, axis=axis, keepdims=True, dtype=cube.dtype) - cube


def _joined(left: _Runs, right: _Runs, *, is_float: bool) -> _Runs:
    """Returns the runs of parts that follow each other."""
    meets = left.last == right.first
    if is_float:  # The greatest key is the key of NaNs.
        meets &= left.last != greatest_key(left.last.dtype)
    across = left.tail + right.head
    is_longer = meets & (across > left.length)
    best = jnp.where(is_longer, left.last, left.best)
    length = jnp.where(is_longer, across, left.length)
    return _Runs(
        left.first,
        jnp.where(meets & (left.first == left.last), across, left.head),
        right.last,
        jnp.where(meets & (right.first == right.last), across, right.tail),
        jnp.where(right.length > length, right.best, best),
        jnp.maximum(right.length, length),
    )
