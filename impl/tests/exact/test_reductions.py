"""Reductions of several arrays at once, against NumPy, and the kernels that XLA makes of them.

Tests: impl._exact.nearest.reductions.
"""

import jax
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import reductions


def three(x):
    raw = lax.bitcast_convert_type(x, np.int64)
    return reductions.reduced([x, raw, raw], [lax.add, lax.max, lax.min], (1,))


def test_each_array_has_its_own_step(rng):
    x = rng.normal(size=(5, 300))
    with arithmetic.wide():
        program = jax.jit(three).lower(x).compile()
        total, greatest, least = program(x)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-12)
    np.testing.assert_array_equal(greatest, x.view(np.int64).max(1))
    np.testing.assert_array_equal(least, x.view(np.int64).min(1))
    # A reduction of one array over as many elements is split in windows.
    assert "reduce-window" not in program.as_text()
    with arithmetic.wide():
        of_one = jax.jit(lambda x: lax.reduce_sum(x, (1,))).lower(x).compile()
    assert "reduce-window" in of_one.as_text()


def test_the_greatest_of_arrays_of_other_shapes(rng):
    arrays = [rng.integers(-100, 100, shape).astype(np.int32) for shape in ((), (3,), (3,), (2, 4))]
    found = jax.jit(reductions.greatest_of_all)(*arrays)
    assert list(map(int, found)) == [int(each.max()) for each in arrays]


@pytest.mark.parametrize("length", [7, 3000])
def test_sums_of_squares(rng, length):
    x = rng.normal(size=(3, length))
    x[1, 2] = np.nan
    with arithmetic.wide():
        got = jax.jit(lambda x: reductions.sum_of_squares(x, (1,)))(x)
    np.testing.assert_allclose(got, (x**2).sum(1), rtol=1e-12)
