"""References for resampling: a matrix for each dimension, in float64."""

import math

import numpy as np


def array(shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def tent(x):
    return max(1 - abs(x), 0.0)


def convolution(x, a):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def matrix(n, m, mode, factor=None, align_corners=False, antialias=False):
    """How much of each of ``n`` elements is in each of ``m``."""
    out = np.zeros((m, n))
    scale = n / m if factor is None else 1 / factor
    if align_corners:
        scale = (n - 1) / (m - 1) if m > 1 else 0.0
    for row, o in zip(out, range(m), strict=True):
        at = o * scale if align_corners else (o + 0.5) * scale - 0.5
        if mode == "area":
            own = [i for i in range(n) if (i + 1) * m > o * n and i * m < (o + 1) * n]
            row[own] = 1 / len(own)
        elif mode == "nearest":
            # As PyTorch rounds it, or another element is the nearest.
            scale32 = np.float32(1 if n == m else scale)
            row[min(int(np.float32(o) * scale32), n - 1)] = 1
        elif mode == "nearest-exact":
            row[min(int(np.float32((o + 0.5) * np.float32(scale))), n - 1)] = 1
        elif antialias:
            widened = max(scale, 1)
            at = (o + 0.5) * scale - 0.5
            kernel = tent if "linear" in mode else lambda x: convolution(x, -0.5)
            row[:] = [kernel((i - at) / widened) for i in range(n)]
            out[o] /= row.sum()
        elif "linear" in mode:
            row[:] = [tent(i - min(max(at, 0), n - 1)) for i in range(n)]
        else:
            first = math.floor(at)
            for i in range(first - 1, first + 3):
                row[min(max(i, 0), n - 1)] += convolution(i - at, -0.75)
    return np.eye(n) if n == m and ("linear" in mode or antialias) else out


def outputs(sizes, given):
    """Sizes of the result, and what positions go by: the factors, or nothing."""
    dims = len(sizes)
    if "size" in given:
        asked, factors = given["size"], None
        return (asked if isinstance(asked, tuple) else (asked,) * dims), (None,) * dims
    factors = given["scale_factor"]
    factors = factors if isinstance(factors, tuple) else (factors,) * dims
    ratio = given.get("recompute_scale_factor") or given["mode"] == "area"
    asked = tuple(int(n * f) for n, f in zip(sizes, factors, strict=True))
    return asked, ((None,) * dims if ratio else factors)


def matrices(sizes, given):
    options = {k: given[k] for k in ("align_corners", "antialias") if k in given}
    asked, factors = outputs(sizes, given)
    return [
        matrix(n, m, given["mode"], f, **options)
        for n, m, f in zip(sizes, asked, factors, strict=True)
    ]


def applied(x, every):
    out = x.astype(np.float64)
    for axis, one in enumerate(every, 2):
        out = np.moveaxis(np.tensordot(one, out, (1, axis)), 0, axis)
    return out
