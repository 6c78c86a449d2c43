"""A seed, and the first keys of a generator that has it."""

from __future__ import annotations

from typing import Any

import jax

SEED = 0x0123_4567_89AB_CDEF
#: Threefry-2x32 of 0, 1 and 2 under the seed; impl/tests/core/_threefry_oracle.py has the oracle.
KEYS = [[0x4D884901, 0xDC0E5397], [0x674AD376, 0x032ABCDB], [0x3BDB6692, 0x6BE05423]]


def drawn(generator: Any, count: int = len(KEYS)) -> list[list[int]]:
    """Draws keys from a generator, and returns their words."""
    return [jax.random.key_data(generator.key()).tolist() for _ in range(count)]
