"""Ways to put the result of a stage into memory before another operation reads it.

XLA otherwise computes a value again wherever it is read, which may be for each tap of each window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.numerics import fence
from impl._lowerings.windows.before_jax_0_11 import store_by_branch

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


#: Puts operands and results into memory on a CPU.
store_on_cpu: Store = _store_between_fences if FENCES_HOLD else store_by_branch
