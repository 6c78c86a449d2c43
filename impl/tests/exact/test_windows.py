"""Sums over windows and the gradient of a max pool, against the oracle in integers.

Tests: impl._exact.sums.pool_choices.
"""

import jax
import numpy as np
import pytest
from jax import lax

from impl import testing
from impl._exact.sums import pool_choices, windows
from impl.tests.exact._sums import DTYPES
from impl.tests.exact._windows import (
    assert_gradients_of_pools,
    assert_sums_of_windows,
    assert_windows_of_hard_terms,
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sums_of_windows_have_the_bits_of_the_oracle(rng, dtype):
    names = ("overlapping", "dilated", "one", "fewer elements than a window", "of one element")
    assert_sums_of_windows(windows.reduce_window_sum, rng, names, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    assert_windows_of_hard_terms(windows.reduce_window_sum, rng, dtype, 8)


@pytest.mark.parametrize(
    ("dtype", "unrolled"),
    [("float32", 64), ("float64", 64), ("bfloat16", 0)],
    ids=["float32", "float64", "bfloat16 in a loop"],
)
def test_gradients_of_max_pools_have_the_bits_of_the_oracle(rng, monkeypatch, dtype, unrolled):
    monkeypatch.setattr(pool_choices, "UNROLLED", unrolled)
    gradient, names = windows.select_and_scatter_add, ("overlapping", "apart")
    assert_gradients_of_pools(gradient, rng, names, "float32", dtype, [lax.ge_p])


@pytest.mark.usefixtures("portable")
def test_the_gradient_of_a_pool_of_many_taps_computes_its_choices_once(rng):
    x = rng.normal(size=(4, 12, 12)).astype(np.float32)
    window = (4, 4, 4), (1, 2, 1), ((1, 2), (0, 1), (0, 0))

    def pooled(x):
        return lax.reduce_window(x, -np.inf, lax.max, *window).sum()

    # With the choices in each tap's fusion, there were 48,640 lines with JAX 0.10.
    with testing.engine("float64"):
        compiled = jax.jit(jax.grad(pooled)).lower(x).compile()
    assert len(compiled.as_text().splitlines()) < 5000
