"""Arrays for calls with bad arguments."""

import numpy as np

#: A vector, a matrix and a number.
V = np.zeros(3, np.float32)
M = np.zeros((3, 2), np.float32)
SCALAR = np.array(5, np.float32)
#: An index of one element, of no dimension, and of two.
ONE = np.zeros(1, np.int64)
POINT = np.array(0)
SQUARE = np.zeros((1, 1), np.int64)
#: An index of the wrong dtype.
SHORT = np.zeros(1, np.int16)
FLOATS = np.zeros(1, np.float32)
COMPLEX = np.ones(2, np.complex64)
BOOLS = np.ones(2, bool)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


#: A source of one element, and one that is too large for it.
S = ones(1)
PAIR = ones(2, 2)
#: A mask that is too long for V, and a column of indices for M.
TALL = ones(4, dtype=bool)
COLUMN = np.zeros((3, 1), int)


def at(*values):
    return np.array(values)
