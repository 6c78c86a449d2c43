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
from impl.tests.exact._terms import hard_matrix
from spec import oracles

#: Window, strides, padding, dilation of the array and of the window.
WINDOWS = {
    "overlapping": ((3, 2, 1), (2, 1, 1), ((1, 1), (0, 2), (0, 0)), (1, 2, 1), (1, 1, 1)),
    "dilated": ((2, 3, 1), (1, 2, 2), ((-1, 1), (0, 1), (0, 0)), (1, 1, 1), (2, 2, 1)),
    "one": ((7, 4, 1), (1, 3, 2), ((0, 0), (0, 0), (0, 0)), (1, 1, 1), (1, 2, 1)),
    "none": ((9, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0)), (1, 1, 1), (1, 1, 1)),
    "of one element": ((1, 1, 1), (1, 2, 1), ((0, 0), (0, 0), (0, 1)), (1, 1, 1), (1, 1, 1)),
}
NAMES = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
POOLS = {
    "overlapping": ((3, 2), (2, 1), ((1, 1), (0, 1))),
    "apart": ((2, 2), (2, 3), ((0, 0), (1, 1))),
}


#: Dtypes, and windows that are unrolled or, for 0, in a loop.
CASES = pytest.mark.parametrize(
    ("dtype", "unrolled"),
    [("float32", 64), ("float64", 64), ("bfloat16", 0)],
    ids=["float32", "float64", "bfloat16 in a loop"],
)


def terms_of(function, x):
    """Returns the terms of a linear function whose factors are 0 and 1: x at its ones."""
    hits = jax.jit(jax.vmap(function))(np.eye(x.size, dtype=np.float32).reshape(-1, *x.shape))
    values = x.reshape(-1, *(1,) * (hits.ndim - 1))
    return np.where(np.asarray(hits) != 0, values, np.zeros((), x.dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sums_of_windows_have_the_bits_of_the_oracle(rng, dtype):
    x = rough(rng, (7, 8, 3), dtype)
    x[2, 3, 0], x[:, :, 2] = np.inf, -0.0
    cases = [dict(zip(NAMES, case, strict=True)) for case in WINDOWS.values()]
    got = run(lambda x: [windows.reduce_window_sum(x, **case) for case in cases], x)
    for label, one, case in zip(WINDOWS, got, WINDOWS.values(), strict=True):
        dims, strides, padding, base, dilation = case

        def plain(x, dims=dims, strides=strides, padding=padding, base=base, dilation=dilation):
            return lax.reduce_window(
                x,
                0.0,
                lax.add,
                dims,
                strides,
                padding,
                base_dilation=base,
                window_dilation=dilation,
            )

        assert_same(one, oracles.nearest(terms_of(plain, x)), label)


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    # Each window holds the terms of one sum, or most of the terms of two neighbours.
    x = hard_matrix(rng, 8, dtype).T.reshape(-1)
    options = dict(zip(NAMES, ((8,), (3,), ((2, 5),), (1,), (1,)), strict=True))
    got = run(lambda x: windows.reduce_window_sum(x, **options), x)
    padded = np.concatenate([np.zeros(2, x.dtype), x, np.zeros(5, x.dtype)])
    terms = np.stack([padded[start : start + 8] for start in range(0, len(padded) - 7, 3)], 1)
    assert_same(got, oracles.nearest(terms))


@CASES
def test_gradients_of_max_pools_have_the_bits_of_the_oracle(rng, monkeypatch, dtype, unrolled):
    monkeypatch.setattr(pool_choices, "UNROLLED", unrolled)
    image = rng.choice([-np.inf, 0, 1, 2, 3, 4, np.inf], (7, 8)).astype(np.float32)
    pools, sources = [], []
    for dims, strides, padding in POOLS.values():

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
            for source, (dims, strides, padding) in zip(sources, POOLS.values(), strict=True)
        ]

    for got, pool, source in zip(run(program, image, sources), pools, sources, strict=True):

        def plain(source, pool=pool):
            return jax.vjp(pool, image)[1](source)[0]

        assert_same(got, oracles.nearest(terms_of(plain, source)))


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
    options = dict(zip(NAMES, WINDOWS["dilated"], strict=True))
    function = functools.partial(windows.reduce_window_sum, **options)
    assert_same(lowered(function, x), run(function, x))
