"""The transpose of picks by phases, in loops that XLA makes vector code of on a CPU.

This is the polyphase decomposition of signal processing (Vaidyanathan, Proceedings of the IEEE 78,
1990, 56-93). The elements are cut into blocks as long as the distance between windows. Elements at
the same position of their block form a phase. The windows over an element, numbered from the number
of the element's block, are the same for all elements of a phase. A phase is computed from whole
slices of windows. The phases are then stacked, which XLA writes as neighbours without a copy. With
windows A, B and C of 3 taps, at a distance of 2 and the first at element -1:

    element       0     1     2     3     4     5     windows minus block
    block         0     0     1     1     2     2
    phase 0       A           B           C           (0,)
    phase 1             A, B        B, C        C     (0, 1)

Short rows of the last axis are joined to longer ones, since LLVM makes vector code of long loops
only.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert
from impl._families.window_table import WindowTable
from impl._lowerings.windows.before_jax_0_11 import joined_rows_are_slow

#: The greatest number of phases, and of slices of windows. Each slice makes the program longer.
_MOST_PHASES, _MOST_SLICES = 7, 32
#: The greatest number of windows over an element. Each window is a step that reads the total so far
#: twice. XLA without its fusion emitters computes all earlier steps again for each read.
_MOST_READS = 8
#: The least length of a long row, and the greatest length of rows that are joined to one.
_LONG_ROW, _JOINED_ROW = 56, 2048
#: The greatest number of phases, and of windows over an element, with which rows are joined: with
#: more, XLA without its fusion emitters makes slow code.
_JOINED_STEP, _JOINED_READS = 2, 2

#: For each phase, how far the windows over an element are from the element's block, in ascending
#: order. A block has one element of each phase.
Phases: TypeAlias = tuple[tuple[int, ...], ...]


@functools.lru_cache(maxsize=1024)
def phases(table: WindowTable) -> Phases | None:
    """Returns the phases if windows are evenly spaced, and None if not.

    The number of phases divides the number of elements: XLA would otherwise copy the stacked
    phases.
    """
    window, tap = np.nonzero(table.index >= 0)
    position = table.index[window, tap]
    if table.inverse.shape[1] > _MOST_READS:
        return None
    for step in range(1, _MOST_PHASES + 1 if position.size else 1):
        if table.inputs % step:
            continue
        pairs = np.unique(np.stack([position % step, window - position // step], 1), axis=0)
        # Except at the edges, each element reads only the windows over it.
        if len(pairs) <= min(_MOST_SLICES, step * table.inverse.shape[1]):
            return tuple(tuple(pairs[pairs[:, 0] == s, 1].tolist()) for s in range(step))
    return None


def joined_rows(table: WindowTable, before: int) -> int | None:
    """Returns how many rows of the last axis are joined to one, or None if phases would be slow.

    Args:
        table: The table of windows, which are evenly spaced.
        before: The size of the axis before the last one, whose rows are joined. Joined rows lie
            within one such axis: across several, XLA would divide to find an element.
    """
    of_phases = phases(table)
    if of_phases is None or not 1 < max(map(len, of_phases)) <= _JOINED_READS:
        return None
    long = 1 if table.outputs >= _LONG_ROW else None
    blocks, even = table.inputs // len(of_phases), table.even
    if len(of_phases) > _JOINED_STEP or table.outputs != blocks or not isinstance(before, int):
        return long
    if joined_rows_are_slow(of_phases):
        return long
    # An element is also compared with a window of the next row. That window cannot match by
    # accident, unless the window is longer than a row.
    if even is None or (even.taps - 1) * even.spacing >= table.inputs:
        return long
    most = min(before, _JOINED_ROW // blocks)
    rows = next((rows for rows in range(most, 1, -1) if before % rows == 0), 1)
    return rows if rows * blocks >= _LONG_ROW else long


def pick_transpose(
    picked: jax.Array, index: jax.Array, table: WindowTable, phases: Phases, rows: int = 1
) -> jax.Array:
    """Computes the transpose of a pick.

    Args:
        picked: Shape [outer, outputs, ...].
        index: The position of each picked element; the same shape.
        table: The table of windows.
        phases: The result of the function ``phases``.
        rows: The number of rows to join, which divides ``outer``. If rows are joined, ``outputs``
            is the last axis of ``picked``, and equals the number of blocks.

    Returns:
        Shape [outer, inputs, ...].
    """
    outer, windows, *inner = picked.shape
    step = len(phases)
    blocks = table.inputs // step
    if not table.counts.all():
        nonempty = (table.counts > 0).reshape(1, windows, *(1 for _ in inner))
        index = where(nonempty, index, -1)
    values = convert(picked, accumulator(picked.dtype))
    first: Any = step * jnp.arange(blocks, dtype=index.dtype)
    if rows > 1:
        joined = functools.partial(jax.lax.reshape, new_sizes=(outer // rows, rows * blocks))
        values, index = joined(values), joined(index)
        # XLA for a CPU reads constants faster than it computes remainders.
        first = np.tile(step * np.arange(blocks, dtype=index.dtype), rows)
        windows = blocks = first.size
    first = first.reshape(1, blocks, *(1 for _ in inner))

    def at(distance: int) -> tuple[jax.Array, jax.Array]:
        along = -distance, blocks + distance - windows, 0
        edges = ((0, 0, 0), along, *((0, 0, 0) for _ in inner))
        none = jnp.full((), -1, index.dtype)
        return jax.lax.pad(index, none, edges), jax.lax.pad(
            values, jnp.zeros((), values.dtype), edges
        )

    def phase(number: int, distances: tuple[int, ...]) -> jax.Array:
        out = jnp.zeros((values.shape[0], blocks, *inner), values.dtype)
        has_terms: jax.Array | None = None
        for distance in distances:
            chosen, value = at(distance)
            is_term = chosen == first + number
            # The first term is selected, not added to 0: 0 + -0 is 0, and would lose the sign.
            total = value if has_terms is None else where(has_terms, out + value, value)
            out = where(is_term, total, out)
            has_terms = is_term if has_terms is None else has_terms | is_term
        return out

    parts = [phase(number, distances) for number, distances in enumerate(phases)]
    out = parts[0] if step == 1 else jnp.stack(parts, axis=2)
    return convert(out, picked.dtype).reshape(outer, table.inputs, *inner)
