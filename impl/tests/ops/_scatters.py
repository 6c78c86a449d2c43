"""Arrays and checks for the tests of scatters and of gathers."""

import functools

import numpy as np

from impl.tests.support.numbers import spread

#: A length, and indices from -2**31 to 2**31 - 1; those from 0 to the length are in range.
SIZE = 5
INDEX = np.array([3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (INDEX >= 0) & (INDEX < SIZE)
#: Indices that int32 cannot hold, for an axis of length 3, and one that it can.
WIDE = np.array([2**32 + 1, 1, -(2**32)])


@functools.cache
def contributions(destinations, count, width, dtype=np.float32):
    """Returns initial values, an index and a source, of which half goes to a few destinations.

    Sums are long, some destinations have no contribution, and zeros of both signs occur.
    """
    rng = np.random.default_rng((destinations, count, width))
    index = np.where(
        rng.random(count) < 0.5,
        rng.integers(0, destinations, count),
        rng.integers(0, min(3, destinations), count),
    )
    source = spread(rng, (count, width), dtype)
    source[::7] = -0.0
    initial = spread(rng, (destinations, width), dtype)
    initial[:: max(1, destinations // 3)] = -0.0
    return initial, index, source


#: Destinations, contributions and widths: few and many of each.
SIZES = [(1, 1, 1), (3, 1024, 2), (3, 1025, 1), (5, 3072, 3), (1025, 2049, 1), (1500, 4500, 2)]
