"""A fast test of the range of a few integers, for the checks that an eager call makes.

NumPy takes 3 us to make its array of a JAX array of a few numbers and 3 us to find the least and
the greatest, which is most of the time of a small call. Python reads the memory as one large
integer, and compares all numbers in it at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

#: The most integers that are tested so; of more, NumPy finds the least and the greatest faster.
MOST = 512


def range_test(low: int, end: int, like: Any) -> Callable[[Any], bool] | None:
    """Returns a test whether all integers of an array are from ``low`` to below ``end``.

    The test returns False if it cannot read the array, as for one that is not in the memory of the
    machine, or is there in several parts.

    Args:
        low: The least that is allowed, at most 0.
        end: The end of what is allowed, at least 0.
        like: An array, known or traced, of the shape and dtype of those that are tested.

    Returns:
        The test; None if the arrays have no integers with a sign, or none or many of them.
    """
    if like.dtype.kind != "i" or not 0 < like.size <= MOST:
        return None
    width = 8 * like.dtype.itemsize
    half = 1 << (width - 1)
    ones = int.from_bytes((1).to_bytes(width // 8, "little") * like.size, "little")
    # The first bit of a number is its sign. With the others, a number of at least ``end`` and one
    # of at least -``low`` below 0 carry into that bit, and no number carries beyond it.
    signs, above, below = ones * half, ones * max(half - end, 0), ones * min(-low, half)
    others = ones * (half - 1)

    # Each reads the memory itself, since a call of a function takes a tenth of its time.
    def of_both_signs(array: Any) -> bool:
        try:
            numbers = int.from_bytes(memoryview(array), sys.byteorder)
        except (BufferError, TypeError):
            return False
        unsigned = numbers & others
        too_large = (unsigned + above) & (numbers ^ signs)
        too_small = numbers & ((unsigned + below) ^ signs)
        return not (too_large | too_small) & signs

    def from_zero(array: Any) -> bool:
        try:
            numbers = int.from_bytes(memoryview(array), sys.byteorder)
        except (BufferError, TypeError):
            return False
        return not (numbers | (numbers + above)) & signs

    return of_both_signs if low else from_zero
