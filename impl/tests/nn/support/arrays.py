"""Arrays that tests of impl.nn draw."""

import numpy as np


def normal(shape, seed=0, dtype=np.float32):
    """Returns normal numbers, which depend on the shape and the seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)
