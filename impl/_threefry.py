"""Threefry-2x32, the counter-based generator behind the keys, on Python's integers.

JAX does not compute it, so a key depends on no device, release or setting of JAX. A process that
must not use JAX, such as a forked one, can draw too.
"""

from __future__ import annotations

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = 0xFFFF_FFFF


def words(value: int) -> tuple[int, int]:
    """Returns the high and the low 32 bits of ``value``, a number from 0 to 2**64 - 1."""
    return value >> 32, value & _WORD


def threefry2x32(key: int, block: int) -> int:
    """Encrypts ``block`` under ``key`` by Threefry-2x32 with 20 rounds.

    The key, the block and the result are numbers from 0 to 2**64 - 1, the high word first. If
    ``block`` is below 2**32, the result is the data of ``jax.random.fold_in`` of the key and it.

    Source: Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", SC11.
    """
    high, low = words(key)
    schedule = (high, low, high ^ low ^ _PARITY)
    x, y = words(block)
    x = (x + schedule[0]) & _WORD
    y = (y + schedule[1]) & _WORD
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = (x + y) & _WORD
            y = ((y << distance | y >> 32 - distance) & _WORD) ^ x
        x = (x + schedule[(group + 1) % 3]) & _WORD
        y = (y + schedule[(group + 2) % 3] + group + 1) & _WORD
    return x << 32 | y
