"""Sums over windows and the gradient of a max pool, against the oracle in integers.

Tests: impl._exact.sums.pool_choices.
"""

import functools

import jax
import numpy as np
import pytest
from jax import lax

from impl._exact.sums import pool_choices, windows
from impl.tests.exact._sums import DTYPES, assert_same, lowered, rough, run
from impl.tests.exact._windows import (
    POOLS,
    WINDOWS,
    assert_sums_of_windows,
    assert_windows_of_hard_terms,
    options,
    terms_of,
)
from spec import oracles

#: The shape, window, strides and padding of pools.
SOME = ("overlapping", "apart")


#: Dtypes, and windows that are unrolled or, for 0, in a loop.
CASES = pytest.mark.parametrize(
    ("dtype", "unrolled"),
    [("float32", 64), ("float64", 64), ("bfloat16", 0)],
    ids=["float32", "float64", "bfloat16 in a loop"],
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sums_of_windows_have_the_bits_of_the_oracle(rng, dtype):
    names = ("overlapping", "dilated", "one", "fewer elements than a window", "of one element")
    assert_sums_of_windows(windows.reduce_window_sum, rng, names, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    assert_windows_of_hard_terms(windows.reduce_window_sum, rng, dtype, 8)


@CASES
def test_gradients_of_max_pools_have_the_bits_of_the_oracle(rng, monkeypatch, dtype, unrolled):
    monkeypatch.setattr(pool_choices, "UNROLLED", unrolled)
    image = rng.choice([-np.inf, 0, 1, 2, 3, 4, np.inf], (7, 8)).astype(np.float32)
    pools, sources = [], []
    for name in SOME:
        _, dims, strides, padding = POOLS[name]

        def pool(x, dims=dims, strides=strides, padding=padding):
            return lax.reduce_window(x, -np.inf, lax.max, dims, strides, padding)

        pools.append(pool)
        sources.append(rough(rng, jax.eval_shape(pool, image).shape, dtype))

    def program(image, sources):
        return [
            windows.select_and_scatter_add(
                source,
                image,
                select_prim=lax.ge_p,
                window_dimensions=dims,
                window_strides=strides,
                padding=padding,
            )
            for source, name in zip(sources, SOME, strict=True)
            for _, dims, strides, padding in [POOLS[name]]
        ]

    results = run(program, image, sources)
    for name, got, pool, source in zip(SOME, results, pools, sources, strict=True):

        def plain(source, pool=pool):
            return jax.vjp(pool, image)[1](source)[0]

        # The images of one shape are the same in each dtype.
        assert_same(got, oracles.nearest(terms_of(f"pool {name}", plain, source)))


@pytest.mark.usefixtures("complete")
def test_the_gradient_of_a_pool_of_many_taps_computes_its_choices_once(rng):
    x = rng.normal(size=(4, 12, 12)).astype(np.float32)
    window = (4, 4, 4)

    def gradient(x):
        return windows.select_and_scatter_add(
            x[:, 3::2, 3:],
            x,
            select_prim=lax.ge_p,
            window_dimensions=window,
            window_strides=(1, 2, 1),
            padding=((1, 2), (0, 1), (0, 0)),
        )

    # With the choices in each tap's fusion, there were 48,640 lines with JAX 0.10.
    compiled = jax.jit(functools.partial(lowered, gradient)).lower(x).compile()
    assert len(compiled.as_text().splitlines()) < 5000


def test_inside_a_lowering_rule(rng):
    x = rough(rng, (7, 8, 3))
    function = functools.partial(windows.reduce_window_sum, **options(WINDOWS["dilated"][1:]))
    assert_same(lowered(function, x), run(function, x))
