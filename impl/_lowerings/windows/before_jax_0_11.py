"""A workaround for jax 0.10: delete this file when that release is no longer supported.

XLA for a CPU fused past every ``optimization_barrier`` before jax 0.11 (``releases.FENCES_HOLD``).
"""

from __future__ import annotations

from collections.abc import Sequence

from impl._core.jax_internals.releases import FENCES_HOLD


def joined_rows_are_slow(phases: Sequence[Sequence[int]]) -> bool:
    """Returns whether joined rows are slower than short ones: two elements may have two windows."""
    return not FENCES_HOLD and sum(map(len, phases)) > len(phases) + 1
