"""Inputs of ``embedding`` and ``embedding_bag``."""

import numpy as np

from impl.tests.nn.support.arrays import normal

#: A table of 5 rows, and indices of its rows.
WEIGHT = normal((5, 3))
INDEX = np.random.default_rng(0).integers(0, 5, 10)
#: Indices of rows, some of which are out of range.
OUT_OF_RANGE = np.array([3, -1, 0, 5, 3, 12, -5, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (OUT_OF_RANGE >= 0) & (OUT_OF_RANGE < 5)
