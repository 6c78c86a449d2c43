"""Arrays that tests of impl.nn draw, and how many calls they try."""

import os

import numpy as np

#: Whether to try many calls.
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def normal(shape, seed=0, dtype=np.float32):
    """Returns normal numbers, which depend on the shape and the seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)
