"""Workarounds for jax 0.10: delete this file when that release is no longer supported.

XLA for a CPU fused past every ``optimization_barrier`` before jax 0.11
(``releases.FENCES_HOLD``), so a barrier did not put a value into memory. A branch does on every
release. Without this file ``stores.store_on_cpu`` is the store between fences, and ``sums.sum_cpu``
uses it too: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.shard_axes import vary_like


def store_by_branch(stage: Callable[..., Any], results: Any, *operands: jax.Array) -> Any:
    """Computes a stage inside a branch, whose operands and results XLA puts into memory.

    The condition is never true, so the stage always runs, but XLA cannot know that.

    Args:
        stage: Takes the operands; returns an array, or a tuple of arrays.
        results: The shapes and dtypes of what the stage returns.
        *operands: Arrays, of which the first has an element.
    """
    values = operands[0]
    first = jax.lax.slice(values, (0,) * values.ndim, (1,) * values.ndim).reshape(()).real

    def zeros(*operands: jax.Array) -> Any:
        return jax.tree.map(
            lambda of: vary_like(jax.lax.full(of.shape, 0, of.dtype), *operands), results
        )

    never = jax.lax.bitwise_and(jax.lax.ne(first, first), jax.lax.gt(first, first.dtype.type(0)))
    return jax.lax.cond(never, zeros, stage, *operands)


def joined_rows_are_slow(phases: Sequence[Sequence[int]]) -> bool:
    """Returns whether joined rows are slower than short ones: two elements may have two windows."""
    return not FENCES_HOLD and sum(map(len, phases)) > len(phases) + 1
