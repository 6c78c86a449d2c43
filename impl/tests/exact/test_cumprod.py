"""Products of an axis, running products and running log-sums, in rounds of doubled distance.

Tests: impl._exact.running.cumlogsumexp.
"""

import jax
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import arithmetic
from impl._exact.running import cumlogsumexp, cumprod
from impl.tests.exact._sums import DTYPES, assert_same, lowered, rough, run
from spec import oracles


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_have_the_bits_of_the_oracle(rng, dtype):
    x = rough(rng, (7, 9), dtype, 4)
    x[3, 0] = np.nan
    x[3, 1:3] = np.inf
    x[5, 2:4] = 0
    x[5, 3] = -0.0
    x[:, 4] = rough(rng, (7,), dtype, 14 if dtype == "float16" else 120)
    # In float16 the product overflows half-way, and is finite at the end.
    x[:, 5] = [2.0**14] * 3 + [2.0**-14] * 4
    want = oracles.doubling(x)
    forward, backward, last, all_of_them = run(
        lambda x: (
            cumprod.cumprod(x, 0),
            cumprod.cumprod(x[::-1].T, 1, reverse=True),
            cumprod.reduce_prod(x, (0,)),
            cumprod.reduce_prod(x[:, 7:], (0, 1)),
        ),
        x,
    )
    assert_same(forward, want)
    assert_same(backward.T[::-1], want)
    assert_same(last, want[-1])
    assert_same(all_of_them, oracles.doubling(x[:, 7:].reshape(-1))[-1])


def test_a_product_without_factors_is_one():
    out = run(lambda x: cumprod.reduce_prod(x, (1,)), np.zeros((3, 0), np.float32))
    assert_same(out, np.ones(3, np.float32))


@pytest.mark.usefixtures("complete")
def test_inside_a_lowering_rule(rng):
    x = rough(rng, (5, 2), spread=3)
    assert_same(lowered(lambda x: cumprod.cumprod(x, 0), x), oracles.doubling(x))


def test_running_log_sums(rng):
    x = rough(rng, (9, 6), spread=3)
    x[:2, 1], x[:, 2], x[5, 3], x[5, 4] = -np.inf, -np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        plain = np.logaddexp.accumulate(x.astype(np.float64))

    def program(x):
        backward = cumlogsumexp.cumlogsumexp(lax.rev(x, (0,)), 0, reverse=True)
        return cumlogsumexp.cumlogsumexp(x, 0), lax.rev(backward, (0,))

    # The error of many roundings in float64 is far below the error of the one to float32.
    want = plain.astype(np.float32)
    for got in run(program, x):
        assert_same(got, want)


def test_running_log_sums_are_not_contracted(rng):
    x = rng.normal(size=(4, 400))

    def at_level(level):
        options = {"xla_backend_optimization_level": level}
        return jax.jit(lambda x: cumlogsumexp.cumlogsumexp(x, 0), compiler_options=options)(x)

    # XLA contracts nothing at level 0, and float64 shows a contraction.
    with arithmetic.wide():
        assert_same(at_level(2), at_level(0))


@pytest.mark.parametrize(("function", "lines"), [(lax.cumprod, 900), (lax.cumlogsumexp, 2800)])
def test_a_round_is_not_computed_again_in_the_next_ones(function, lines):
    # With such repetitions, these had 1,863 and 5,567 lines, and grew faster than the length.
    with impl.deterministic(guarantee="portable"):
        compiled = jax.jit(function).lower(jax.ShapeDtypeStruct((512,), "float32")).compile()
    assert len(compiled.as_text().splitlines()) < lines
