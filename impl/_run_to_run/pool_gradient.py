"""The gradient of a max pool, whose sums have a fixed order: ``lax.select_and_scatter_add``.

Each window sends its cotangent to the element that it chose, and XLA adds the cotangents of one
element in any order. Instead, each element first adds the cotangent of the window that has it as
the last element, then of the window that has it as the last but one, and so on. The order of the
sum is then the order of the windows, and no scatter is needed. A *tap* is one element of a window.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.jax_internals import Primitive
from impl._core.numerics import accumulator, convert, isolate
from impl._exact.sums.pool_choices import UNROLLED, Padding, Pool, chosen_taps, folded, sent


def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    order: jax.Array | None = None,
) -> jax.Array:
    """Computes ``lax.select_and_scatter_add`` in the order of its windows.

    Args:
        source: The cotangent of each window.
        operand: The input of the pool.
        select_prim: The comparison by which a window keeps its present element rather than the next
            one.
        window_dimensions: The shape of a window.
        window_strides: The distance between windows.
        padding: Elements before and after each axis, which no window chooses.
        order: The order of the taps, for a test; None adds in the order of the windows.

    Returns:
        The cotangent of the operand.
    """
    pool = Pool(
        # The last tap of a window comes first: an element then adds its windows in ascending order.
        taps=list(np.ndindex(*window_dimensions))[::-1],
        sizes=operand.shape,
        outputs=source.shape,
        strides=window_strides,
        padding=padding,
    )
    values = isolate(convert(source, accumulator(source.dtype)))
    total = jnp.zeros(operand.shape, values.dtype)
    if order is None and len(pool.taps) <= UNROLLED:
        chosen = chosen_taps(pool, operand, select_prim, unrolled=True)
        for number in range(len(pool.taps)):
            total = total + sent(pool, number, values, chosen)
    else:
        order = jnp.arange(len(pool.taps)) if order is None else order
        chosen = chosen_taps(pool, operand, select_prim, unrolled=False)
        (total,) = folded(pool, order, _added, [total], [], values, chosen)
    return convert(total, source.dtype)


def _added(states: list[jax.Array], others: list[jax.Array], sent: jax.Array) -> list[jax.Array]:
    del others
    return [states[0] + sent]
