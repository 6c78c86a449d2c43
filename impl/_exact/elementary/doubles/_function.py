"""A function of float64, and the two ways to compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax


class Double(NamedTuple):
    """A function of float64.

    Attributes:
        full: The contract: takes float64 arrays of one shape, and returns float64. HLO computes it.
        quick: Returns two float64 arrays, the ends of an interval, rounded; where they are the same
            number, or both NaN, it is the result of ``full``. The engine ``native`` computes it
            first, and ``full`` for the other elements only. None for no quicker way.
    """

    full: Callable[..., jax.Array]
    quick: Callable[..., tuple[jax.Array, jax.Array]] | None = None
