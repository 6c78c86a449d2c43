"""Arrays for the tests of getitem, index_put, take, put and their relatives."""

import jax
import numpy as np

from impl.tests.support.bits import assert_same_bits

#: An array to index, with every element different.
X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
NO_INDEX = np.zeros(0, int)
V, M = np.zeros(3, np.float32), np.zeros((3, 2), np.float32)

#: A length, and indices of which those from -5 to 4 are in range.
SIZE = 5
INDEX = np.array(
    [3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, -SIZE - 1, 2**31 - 1, -(2**31), 1, -SIZE - 3], np.int32
)
IN_RANGE = (INDEX >= -SIZE) & (INDEX < SIZE)
#: The same counted from the front.
WRAPPED = np.where(INDEX < 0, INDEX + SIZE, INDEX)
#: Indices that int32 cannot hold, for an axis of length 3, and one that it can.
WIDE = np.array([2**32 + 1, 1, -(2**32), -(2**32) - 1])


def at(*values):
    return np.array(values)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def assert_reads_out_of_range_are_filled(calls, in_range=IN_RANGE):
    """Asserts which rows each call ``(x, index)`` reads, and the bits of its gradient.

    A row out of range is NaN, and its gradient goes nowhere. ``in_range`` marks the elements of
    INDEX that are in range.
    """
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(SIZE, 2)
    weight = np.arange(1, 2 * len(INDEX) + 1, dtype=np.float32).reshape(-1, 2)
    rows = np.full((len(INDEX), 2), np.nan, np.float32)
    rows[in_range] = x[WRAPPED[in_range]]
    gradient = np.zeros_like(x)
    np.add.at(gradient, WRAPPED[in_range], weight[in_range])

    @jax.jit
    def reads(x, i, w):
        def read(call):
            out, pullback = jax.vjp(lambda x: call(x, i), x)
            return out, pullback(w)[0]

        return [read(call) for call in calls]

    for out, back in reads(x, INDEX, weight):
        np.testing.assert_array_equal(out, rows)
        assert_same_bits(back, gradient)
