"""A fast test of the range of a few integers, for the checks that an eager call makes.

NumPy takes 3 us to convert a small JAX array to a NumPy array, and 3 us to find the least and the
greatest number. This test takes 2 us, which saves a fourth or more of an eager ``index_add``.
Python reads the memory as one large integer, and compares all numbers in it at once: arithmetic on
packed words (Lamport, "Multiple byte processing with full-word instructions", Communications of the
ACM 18, 1975, 471-475). With words of 8 bits, the test for ``0 <= number < 10`` adds 128 - 10 to
each, so that a number of 10 or more carries into its sign bit:

    numbers                   [ 3,   9,  10,  -1]     0x03 0x09 0x0a 0xff
    numbers + 118             [121, 127, 128, 117]    the sign bit of the third is set
    numbers | (numbers + 118)                         sign bits of the third and fourth: refused
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

#: The greatest number of integers for this test; NumPy is faster for more.
MOST = 512


def range_test(low: int, end: int, like: Any) -> Callable[[Any], bool] | None:
    """Returns a test whether all integers of an array are from ``low`` to below ``end``.

    The test returns False if it cannot read the array, as on a GPU, or in several parts.

    Args:
        low: The least allowed integer, at most 0.
        end: The end of the allowed range, at least 0.
        like: An array, known or traced, of the shape and dtype of the arrays to be tested.

    Returns:
        The test; None if the dtype is not a signed integer, or if the number of
        integers is 0 or more than ``MOST``.
    """
    if like.dtype.kind != "i" or not 0 < like.size <= MOST:
        return None
    width = 8 * like.dtype.itemsize
    half = 1 << (width - 1)
    ones = int.from_bytes((1).to_bytes(width // 8, "little") * like.size, "little")
    # The highest bit of a number is its sign. In the sum of ``above`` and the other bits, a number
    # of ``end`` or more carries into the sign bit; in the sum of ``below`` and the other bits, a
    # negative number carries if it is ``low`` or more. No number carries beyond its sign bit.
    signs, above, below = ones * half, ones * max(half - end, 0), ones * min(-low, half)
    others = ones * (half - 1)

    # Each test reads the memory itself: a call of a shared function would add a tenth to its time.
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
