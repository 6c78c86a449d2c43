"""The kernel that finds the first elements of each row in sorted order, in order of position.

An instance determines the key of rank ``count`` in its part of a row, and numbers the elements with
smaller keys, and the first of the equal ones, by a running sum. It sorts nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._families.sort_keys import as_sortable
from impl._kernels._rows import RowTiles, key_dtype, kth_key, load_keys, longest
from impl._kernels.launch import Launch

#: The number of bytes of the keys that a lane holds of a row.
_LANE_BYTES = 64
#: The number of bits of a count of the elements of a row, two of which share an integer.
_COUNT = 16


def parts_of(values: jax.Array, count: int) -> int | None:
    """Returns the number of parts of similar lengths into which ``top_positions`` cuts a row.

    Args:
        values: Shape [rows, n].
        count: The number of elements that it finds in each part.

    Returns:
        None if an instance cannot hold a part that is long enough to drop most of its elements.
    """
    length, most = values.shape[1], longest(_depth(values))
    if length <= most:
        return 1
    # More instances read shorter parts at once, but then more elements remain.
    part = max(most // 2, 8 * count)
    return -(-length // part) if part <= most else None


def _depth(values: jax.Array) -> int:
    return _LANE_BYTES // key_dtype(values).itemsize


def top_positions(
    values: jax.Array, count: int, *, descending: bool, parts: int, launch: Launch
) -> jax.Array:
    """Finds the elements of each part of a row that come first in sorted order.

    Of equal elements the one with the lower position comes first.

    Args:
        values: Real numbers, shape [rows, n], which are ordered as ``sort_keys`` orders them.
        count: How many elements to find in a part, up to its length.
        descending: Whether the greatest come first.
        parts: The number of parts, as ``parts_of`` returns it.
        launch: How to run.

    Returns:
        Their positions in the row, ascending; int32, shape [rows, parts * count].
    """
    values = as_sortable(values)
    rows, n = values.shape
    least, longer = divmod(n, parts)
    tiles = RowTiles(rows * parts, least + bool(longer), _depth(values))
    bits = values.dtype.itemsize * 8

    def kernel(values_ref: Any, out_ref: Any) -> None:
        part, lane = tiles.lanes(launch)
        within = part % parts
        start = within * least + jnp.minimum(within, longer)
        length = jnp.where(part < rows * parts, least + (within < longer).astype(jnp.int32), 0)
        inside = lane[None, :] < length[:, None]
        column = start[:, None] + lane[None, :]
        offset = (part // parts * n)[:, None] + column
        keys = load_keys(launch, values_ref, offset, inside, descending=descending)
        last = kth_key(keys, jnp.full(part.shape, count, jnp.int32), bits)[:, None]
        before, equal = inside & (keys < last), inside & (keys == last)
        both = (before.astype(jnp.int32) << _COUNT) + equal.astype(jnp.int32)
        so_far = jnp.cumsum(both, axis=1, dtype=jnp.int32)
        total = jnp.sum(before, axis=1, dtype=jnp.int32)[:, None]
        equals = so_far & ((1 << _COUNT) - 1)
        taken = before | (equal & (equals <= count - total))
        slot = (so_far >> _COUNT) + jnp.minimum(equals, count - total) - 1
        launch.store_some(out_ref, part[:, None] * count + slot, column, taken)

    positions = launch(
        kernel,
        (tiles.programs,),
        jax.ShapeDtypeStruct((rows * parts * count,), jnp.int32),
        values.reshape(-1),
        name="top_ordered",
        num_warps=tiles.warps,
    )
    return positions.reshape(rows, parts * count)
