"""References for sums over windows, in float64, in the plainest way."""

import functools

import numpy as np


def fixed(size, kernel, stride, padding=0, ceil_mode=False, dilation=1):
    """For each window of a pool, the position of each of its elements, in the padding or not."""
    last = size + 2 * padding - dilation * (kernel - 1) - 1
    starts = [
        s
        for s in range(0, last + stride, stride)
        if s <= last or (ceil_mode and s < size + padding)
    ]
    return [[s - padding + dilation * t for t in range(kernel)] for s in starts]


def shared_out(size, count):
    """As ``fixed``, for windows that divide the dimension."""
    return [
        [i for i in range(size) if (i + 1) * count > o * size and i * count < (o + 1) * size]
        for o in range(count)
    ]


def membership(windows, sizes):
    """Which elements each window has: shape [windows, elements]."""
    parts = [
        np.array([[float(i in window) for i in range(size)] for window in along])
        for along, size in zip(windows, sizes, strict=True)
    ]
    return functools.reduce(np.kron, (p.reshape(-1, n) for p, n in zip(parts, sizes, strict=True)))


def within(windows, limits):
    """How many elements each window has from the first of ``limits`` to before the second."""
    counts = [
        [sum(low <= i < high for i in window) for window in along]
        for along, (low, high) in zip(windows, limits, strict=True)
    ]
    return functools.reduce(np.multiply.outer, map(np.array, counts))


def mean(x, windows, divisor):
    """The sums of windows of the last dimensions, divided, and a function to the gradient."""
    dims = len(windows)
    member = membership(windows, x.shape[-dims:])
    rows = x.astype(np.float64).reshape(*x.shape[:-dims], -1)
    lengths = [len(along) for along in windows]
    out = (rows @ member.T).reshape(*x.shape[:-dims], *lengths) / divisor

    def pullback(ct):
        return ((ct / divisor).reshape(*x.shape[:-dims], -1) @ member).reshape(x.shape)

    return out, pullback
