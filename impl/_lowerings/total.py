"""Lowerings of totals: the sum along the last axis, in each element of that axis.

The ordered path is pairwise summation (Higham, "The accuracy of floating point summation", SIAM
Journal on Scientific Computing 14, 1993, 783-799; doi:10.1137/0914050). It adds the later half of
the terms to the earlier half until one term remains. For 5 terms a, b, c, d, e:

    a + d   b + e   c        ->   (a + d) + c   b + e        ->   ((a + d) + c) + (b + e)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core.numerics import accumulator, convert, identity


def ordered_xla(values: jax.Array) -> jax.Array:
    """Computes the total in the order of halves.

    Each round is one elementwise addition, which no compiler reorders. A GPU needs no kernel, since
    a round is parallel.
    """
    wide = convert(values, accumulator(values.dtype))
    count = values.shape[-1]
    if count == 0:
        return values
    while count > 1:
        half = -(-count // 2)
        later = jax.lax.slice_in_dim(wide, half, count, axis=-1)
        # The middle term of an odd number is added to the identity, and keeps its bits.
        widths = [(0, 0, 0)] * (wide.ndim - 1) + [(0, count % 2, 0)]
        later = jax.lax.pad(later, jnp.asarray(identity(wide.dtype), wide.dtype), widths)
        wide = jax.lax.slice_in_dim(wide, 0, half, axis=-1) + later
        count = half
    return jnp.broadcast_to(convert(wide, values.dtype), values.shape)


def atomic_xla(values: jax.Array) -> jax.Array:
    """Computes the total by a reduction of XLA, which does not race."""
    return jnp.broadcast_to(values.sum(-1, keepdims=True), values.shape)
