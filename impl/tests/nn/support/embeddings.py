"""Inputs of ``embedding`` and ``embedding_bag``."""

import numpy as np

from impl.tests.nn.support.arrays import normal

#: A table of 5 rows, indices of its rows, and the start of each of four bags of them.
WEIGHT = normal((5, 3))
INDEX = np.random.default_rng(0).integers(0, 5, 10)
OFFSETS = np.array([0, 0, 3, 7])
#: Indices of rows, some of which are out of range.
OUT_OF_RANGE = np.array([3, -1, 0, 5, 3, 12, -5, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (OUT_OF_RANGE >= 0) & (OUT_OF_RANGE < 5)
