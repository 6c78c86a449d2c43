"""Indices in range and out of range."""

import numpy as np

V = np.zeros(3, np.float32)
#: A length, and indices of which those from -5 to 4 are in range, or those from 0 to 4.
SIZE = 5
INDEX = np.array(
    [3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, -SIZE - 1, 2**31 - 1, -(2**31), 1, -SIZE - 3], np.int32
)
IN_RANGE = (INDEX >= -SIZE) & (INDEX < SIZE)
INSIDE = IN_RANGE & (INDEX >= 0)
#: The same counted from the front.
WRAPPED = np.where(INDEX < 0, INDEX + SIZE, INDEX)
#: Indices that int32 cannot hold, for an axis of length 3, and one that it can.
WIDE = np.array([2**32 + 1, 1, -(2**32), -(2**32) - 1])
