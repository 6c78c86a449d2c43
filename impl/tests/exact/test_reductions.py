"""Reductions of several arrays at once, against NumPy.

Tests: impl._exact.nearest.reductions.
"""

import jax
import numpy as np
from jax import lax

from impl._exact.nearest import reductions


def test_each_array_has_its_own_step(rng):
    x = rng.integers(-1000, 1000, (5, 300)).astype(np.int32)
    steps = [lax.max, lax.min, lax.bitwise_or]
    greatest, least, bits = jax.jit(lambda x: reductions.reduced([x, x, x], steps, (1,)))(x)
    np.testing.assert_array_equal(greatest, x.max(1))
    np.testing.assert_array_equal(least, x.min(1))
    np.testing.assert_array_equal(bits, np.bitwise_or.reduce(x, 1))
