"""The position of the last mark at or before each element of a row, by XLA for a CPU.

The marks of a block are the bits of a word. For an element, the bits of later elements are masked,
and the exponent of the word as a float is the index of its highest bit. For element 4 of the marks
1 0 1 0 0 1 the masked word is 000101 in binary, or 5.0 = 1.25 * 2^2, so the last mark is at 2. This
takes fewer operations than a scan of positions, which takes several for each member of a block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from impl._families.scan_combines import Parts
from impl._lowerings import scan_blocks

#: The number of marks in a word. A float32 holds such a word without rounding.
_BITS = 16


def last_marked(marks: Callable[[Parts], jax.Array], parts: Parts) -> jax.Array:
    """Returns the position of the last mark at or before each element of a row.

    Args:
        marks: Returns the marks of ``parts``: booleans, of which the first of each row is true. The
            function is elementwise.
        parts: Arrays of one shape, [outer, n, inner], without an axis of length 0.

    Returns:
        int32, of that shape.
    """
    shape = parts[0].shape
    # XLA might copy an array to drop a last axis of length 1, so it is dropped here.
    arrays = tuple(part.reshape(shape[: 2 + (shape[2] > 1)]) for part in parts)

    def words(arrays: Parts) -> Parts:
        blocks = scan_blocks.cut(marks(arrays), _BITS)
        bits = jnp.asarray(1 << np.arange(blocks.shape[2], dtype=np.int32))
        bits = jax.lax.broadcast_in_dim(bits, blocks.shape, (2,))
        word = jax.lax.select(blocks, bits, jax.lax.full_like(bits, 0))
        return (jax.lax.reduce_or(word, (2,)),)

    (of_blocks,) = scan_blocks.apart(words, arrays)
    members = min(shape[1], _BITS)
    if of_blocks.shape[1] == 1:
        return _up_to_each(of_blocks, members, -1).reshape(shape)
    last = _last(of_blocks, -1)
    rows = last.reshape(*last.shape[:2], -1)
    (running,) = scan_blocks.scan((rows,), _later, _BITS)
    running = running.reshape(last.shape)
    # Nothing is before the first block, but the first element of a row has a mark.
    ends = (jax.lax.slice_in_dim(running, start, end, axis=1) for start, end in ((0, 1), (0, -1)))
    before = jax.lax.concatenate(tuple(ends), 1)

    def positions(both: Parts) -> Parts:
        return (_up_to_each(both[0], members, both[1]),)

    (in_blocks,) = scan_blocks.apart(positions, (of_blocks, before))
    return scan_blocks.joined(in_blocks, arrays[0].shape).reshape(shape)


def _later(earlier: Parts, later: Parts) -> Parts:
    return (jax.lax.max(earlier[0], later[0]),)


def _up_to_each(words: jax.Array, members: int, none: jax.Array | int) -> jax.Array:
    """Returns the position of the last mark at or before each member of the block of a word.

    The result has one axis more, of length ``members``, after the axis of the words.
    """
    shape = (*words.shape[:2], members, *words.shape[2:])
    axes = tuple(axis for axis in range(len(shape)) if axis != 2)
    up_to = jnp.asarray((2 << np.arange(members, dtype=np.int32)) - 1)
    masked = jax.lax.bitwise_and(
        jax.lax.broadcast_in_dim(words, shape, axes), jax.lax.broadcast_in_dim(up_to, shape, (2,))
    )
    if not isinstance(none, int):
        none = jax.lax.broadcast_in_dim(none, shape, axes)
    return _last(masked, none)


def _last(words: jax.Array, none: jax.Array | int) -> jax.Array:
    """Returns the position of the highest bit of each word of a row; ``none`` for a word of 0."""
    fills = functools.partial(jax.lax.full_like, words)
    raw = jax.lax.bitcast_convert_type(words.astype(jnp.float32), jnp.int32)
    exponent = jax.lax.sub(jax.lax.shift_right_logical(raw, fills(23)), fills(127))
    first = jax.lax.mul(jax.lax.broadcasted_iota(jnp.int32, words.shape, 1), fills(_BITS))
    if isinstance(none, int):
        none = fills(none)
    return jax.lax.select(jax.lax.eq(words, fills(0)), none, jax.lax.add(first, exponent))
