"""The transpose of picks from evenly spaced windows, in loops that XLA makes vector code of.

Call a window's step the elements from its first tap to the next window's. A window over an element
begins a known number of steps before the element's own step: with windows of 3 taps and steps of 2
elements, 1 or 0 steps before. For each of these numbers, all elements read one slice of the
windows, in which each window is repeated for the elements of its step:

    window over elements   0 1 2 3 4 5
    1 step before          - - A A B B
    0 steps before         A A B B C C

An element adds the value of a window if the window picked that element.
"""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
from jax import lax

from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert
from impl._families.window_table import EvenWindows, WindowTable
from impl._lowerings.windows.stores import store_on_cpu

#: The greatest number of windows over an element. Each window makes the program longer: it is a
#: step that reads the total so far twice. XLA without its fusion emitters computes all earlier
#: steps again for each read.
_MOST_READS = 8
#: The greatest number of windows over an element, and the longest step, with which it is faster to
#: pad windows wherever they are read than to copy them with their padding first. Along
#: the last axis, copies are faster.
_FEW_READS, _SHORT_STEP = 5, 2


def reads(table: WindowTable) -> tuple[int, ...] | None:
    """Returns how many steps before the last window over an element each window over it begins.

    The numbers are in ascending order of windows. None if windows are not evenly spaced, or too
    many lie over an element.
    """
    even = table.even
    if even is None:
        return None
    taps = range(0, even.taps * even.spacing, even.spacing)
    steps = tuple(sorted({tap // even.step for tap in taps}, reverse=True))
    # XLA is slow to cut off a part of the last step, where there is one window over each element.
    is_whole = len(steps) > 1 or (even.start == 0 and table.inputs % even.step == 0)
    return steps if is_whole and len(steps) <= _MOST_READS else None


def pick_transpose(
    picked: jax.Array, index: jax.Array, table: WindowTable, steps: tuple[int, ...]
) -> jax.Array:
    """Computes the transpose of a pick.

    Args:
        picked: Shape [outer, outputs, ...].
        index: The position of each picked element; the same shape.
        table: The table of windows, which are evenly spaced.
        steps: The result of ``reads``.

    Returns:
        Shape [outer, inputs, ...].
    """
    even = cast("EvenWindows", table.even)
    wide = convert(picked, accumulator(picked.dtype))
    # The windows are numbered from one that begins at the first input or before it.
    more = max(0, -(-even.start // even.step))
    begin = more * even.step - even.start
    first, last = begin // even.step, (begin + table.inputs - 1) // even.step
    along = steps[0] + more - first, last + 1 - more - table.outputs, 0
    edges = ((0, 0, 0), along, *((0, 0, 0) for _ in picked.shape[2:]))

    def padded(wide: jax.Array, index: jax.Array) -> tuple[jax.Array, ...]:
        fills = jnp.zeros((), wide.dtype), jnp.full((), -1, index.dtype)
        return tuple(lax.pad(part, n, edges) for part, n in zip((wide, index), fills, strict=True))

    operands: tuple[jax.Array, ...] = wide, index
    if any(along):
        few = len(steps) <= _FEW_READS and even.step <= _SHORT_STEP and picked.ndim > 2
        shape = (picked.shape[0], last + 1 - first + steps[0], *picked.shape[2:])
        results = tuple(jax.ShapeDtypeStruct(shape, part.dtype) for part in operands)
        operands = padded(*operands) if few else store_on_cpu(padded, results, *operands)

    def read(part: jax.Array, step: int) -> jax.Array:
        """Returns, for each element, the window that begins some steps before the last over it."""
        at = steps[0] - step
        part = lax.slice_in_dim(part, at, at + last + 1 - first, axis=1)
        outer, blocks, *inner = part.shape
        axes = [axis for axis in range(part.ndim + 1) if axis != 2]
        part = lax.broadcast_in_dim(part, (outer, blocks, even.step, *inner), axes)
        part = part.reshape(outer, blocks * even.step, *inner)
        begins = begin - first * even.step
        return lax.slice_in_dim(part, begins, begins + table.inputs, axis=1)

    out = has_terms = None
    for step in steps:
        value, chosen = (read(part, step) for part in operands)
        is_term = lax.eq(chosen, lax.broadcasted_iota(chosen.dtype, chosen.shape, 1))
        if out is None or has_terms is None:
            out, has_terms = where(is_term, value, 0), is_term
            continue
        # The first term is selected, not added to 0: 0 + -0 is 0, which is another number.
        total = lax.select(has_terms, lax.add(out, value), value)
        out, has_terms = lax.select(is_term, total, out), lax.bitwise_or(has_terms, is_term)
    return convert(cast("jax.Array", out), picked.dtype)
