"""Arrays of random numbers for tests."""

import numpy as np


def spread(rng, shape, dtype=np.float32):
    """Returns normal numbers of many magnitudes; their sum depends on the order of additions."""
    value = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * rng.standard_normal(shape)
    return value.astype(dtype)


def normal(shape, seed=0):
    """Returns normal numbers, which depend on the shape and the seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def whole(rng, shape, most=8):
    """Returns small whole numbers; their products and sums are the same in every order."""
    return rng.integers(-most, most + 1, shape).astype(np.float32)


def near_one(shape, dtype):
    """Returns numbers of both signs near 1 and -1, whose products do not overflow."""
    rng = np.random.default_rng(0)
    return (np.exp(rng.standard_normal(shape) / 50) * rng.choice([-1, 1], shape)).astype(dtype)
