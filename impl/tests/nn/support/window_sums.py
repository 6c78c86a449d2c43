"""References of pooling: the indices that windows read, and means over windows in float64."""

import functools

import numpy as np

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def fixed(size, kernel, stride, padding=0, ceil_mode=False, dilation=1):
    """Returns the indices of each window of a pool; some may be in the padding."""
    last = size + 2 * padding - dilation * (kernel - 1) - 1
    starts = [
        start
        for start in range(0, last + stride, stride)
        if start <= last or (ceil_mode and start < size + padding)
    ]
    return [[start - padding + dilation * i for i in range(kernel)] for start in starts]


def adaptive(size, count):
    """Returns the indices of each of ``count`` windows that divide a dimension."""
    return [
        [
            i
            for i in range(size)
            if (i + 1) * count > window * size and i * count < (window + 1) * size
        ]
        for window in range(count)
    ]


def count_within(windows, limits):
    """Returns how many indices of each window are in ``[low, high)`` of each dimension."""
    counts = [
        [sum(low <= i < high for i in window) for window in of_dim]
        for of_dim, (low, high) in zip(windows, limits, strict=True)
    ]
    return functools.reduce(np.multiply.outer, map(np.array, counts))


def of_each_dimension(value, dims):
    """Returns ``value``, or a tuple that repeats it for each dimension."""
    return value if isinstance(value, tuple) else (value,) * dims
