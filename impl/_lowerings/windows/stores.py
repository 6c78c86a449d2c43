"""Ways to put the result of a stage into memory before another operation reads it.

XLA otherwise computes a value again wherever it is read, which may be for each tap of each window.
XLA for a CPU fused past every ``optimization_barrier`` before jax 0.11 (``releases.FENCES_HOLD``),
so a barrier did not put a value into memory. A branch does on every release. When jax 0.10 is no
longer supported, delete ``store_by_branch``: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.numerics import fence
from impl._core.shard_axes import vary_like

#: A part of a lowering; takes arrays, returns an array or a tuple of arrays.
Stage = Callable[..., Any]
#: Computes a stage so that its results are in memory. Takes the stage, the shapes and dtypes of its
#: results, and its operands.
Store = Callable[..., Any]


def store_by_fence(stage: Stage, _: Any, *operands: jax.Array) -> Any:
    """Computes a stage whose results XLA puts into memory, since a fence follows."""
    return fence(stage(*operands))


def _store_between_fences(stage: Stage, _: Any, *operands: jax.Array) -> Any:
    """Computes a stage whose operands and results XLA puts into memory."""
    return fence(stage(*map(fence, operands)))


def store_by_branch(stage: Stage, results: Any, *operands: jax.Array) -> Any:
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


#: Puts operands and results into memory on a CPU.
store_on_cpu: Store = _store_between_fences if FENCES_HOLD else store_by_branch
