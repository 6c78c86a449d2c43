"""Arrays that tests of impl.nn draw, and how many calls they try."""

import os

import numpy as np

#: Whether to try many calls.
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def computed(calls, few):
    """Returns the number of drawn calls that impl computes, by the number of dimensions.

    A third dimension adds no code, but it takes time to compile.

    Args:
        calls: The number of drawn calls, which are all compared with PyTorch.
        few: The numbers, unless the run is thorough.
    """
    return dict.fromkeys(few, calls) if THOROUGH else few


def normal(shape, seed=0, dtype=np.float32):
    """Returns normal numbers, which depend on the shape and the seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)
