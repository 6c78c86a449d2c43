"""Exact sums over axes and running ones, against the oracle in fractions.

Tests: impl._exact.sums.grid.
"""

import jax
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.sums import grid, reduction
from impl.tests.exact._sums import DTYPES, assert_same, lowered, rough, run
from spec import oracles


def with_special_values(x):
    x = x.copy()
    x[2, 0] = np.nan
    x[2, 1] = np.inf
    x[3, 2] = -np.inf
    x[2:4, 3] = np.inf, -np.inf
    x[:, 4] = np.where(np.arange(len(x)) % 2, -0.0, 0.0)
    x[:, 5] = -0.0
    x[:, 6] = np.finfo(np.float32).tiny / 8 if x.dtype.itemsize == 4 else x[:, 6]
    x[1:, 7] = 0
    return x


def program(x):
    return (
        reduction.reduce_sum(x, (0,)),
        reduction.reduce_sum(x[::-1], (0,)),
        reduction.reduce_sum(x[:, 8:], (1, 0)),
        reduction.cumsum(x, 0),
        reduction.cumsum(x, -2, reverse=True),
        reduction.reduce_sum(x[:, 8:], (1,), np.float32),
    )


@pytest.mark.parametrize(
    ("dtype", "significand"),
    [*((dtype, 53) for dtype in DTYPES), ("float32", 32), ("float64", 32)],
)
def test_the_bits_are_those_of_the_oracle(rng, monkeypatch, dtype, significand):
    # With fewer bits, sums of more than 4 terms have the digits of sums of more than 2**23 terms.
    monkeypatch.setattr(grid, "_SIGNIFICAND", significand)
    x = with_special_values(rough(rng, (11, 14), dtype))
    got = run(program, x)
    want = oracles.exact(x)
    assert_same(got[0], want)
    assert_same(got[1], want)
    assert_same(got[2], oracles.exact(x[:, 8:].reshape(-1)))
    assert_same(got[3], oracles.exact_running(x))
    assert_same(got[4], oracles.exact_running(x[::-1])[::-1])
    assert_same(got[5], oracles.exact(x[:, 8:].T, np.float32))


def test_overflow_and_underflow():
    greatest, tiny = np.finfo(np.float32).max, np.finfo(np.float32).tiny
    x = np.array([[greatest, greatest, tiny], [greatest, -greatest, -1.5 * tiny]], np.float32)
    want = np.array([np.inf, 0, -0.0], np.float32)
    assert_same(run(lambda x: reduction.reduce_sum(x, (0,)), x), want)
    # A sum that is between two float16, and closer to neither, takes the one whose last bit is 0.
    x = np.array([2049, 2.0**-15, -(2.0**-15)], np.float32)
    parts = run(lambda x: [reduction.reduce_sum(x[:n], (0,), np.float16) for n in (1, 2, 3)], x)
    assert [float(part) for part in parts] == [2048, 2050, 2048]


def test_a_running_sum_is_rounded_once():
    # The sum is above the middle of two float32 by less than a float64 of its size holds.
    x = np.array([1, 2.0**-24, 2.0**-56, -(2.0**-24)], np.float32)
    want = np.array([1, 1, 1 + 2.0**-23, 1], np.float32)
    assert_same(run(lambda x: reduction.cumsum(x, 0), x), want)


def test_a_sum_without_terms_is_zero():
    out = run(
        lambda x: (reduction.reduce_sum(x, (1,)), reduction.cumsum(x, 1)),
        np.zeros((3, 0), np.float32),
    )
    assert_same(out[0], np.zeros(3, np.float32))
    assert out[1].shape == (3, 0)


def test_zeros_that_are_added_change_nothing(rng):
    x = rough(rng, (100,), spread=3)
    padded = np.concatenate([np.zeros(37, np.float32), x, np.zeros(900, np.float32)])
    sum_of = lambda x: reduction.reduce_sum(x, (0,))  # noqa: E731  # two programs of one function
    assert_same(run(sum_of, x), run(sum_of, padded))


def test_eager_and_vmap_give_the_same_bits(rng):
    x = rough(rng, (5, 40))
    want = oracles.exact(x.T)
    with arithmetic.wide():
        assert_same(reduction.reduce_sum(jax.numpy.asarray(x), (1,)), want)
    assert_same(run(jax.vmap(lambda row: reduction.reduce_sum(row, (0,))), x), want)


@pytest.mark.usefixtures("complete")
def test_inside_a_lowering_rule(rng):
    x = rough(rng, (40, 3))
    assert not jax.config.jax_enable_x64
    assert_same(lowered(lambda x: reduction.reduce_sum(x, (0,)), x), oracles.exact(x))


def test_errors_are_not_greater_than_those_of_plain_sums(rng):
    for spread in (0, 12):
        x = rough(rng, (500, 64), spread=spread)
        want = x.astype(np.float64).sum(0)
        plain = np.abs(run(lambda x: x.sum(0), x) - want)
        exact = np.abs(run(lambda x: reduction.reduce_sum(x, (0,)), x) - want)
        assert np.median(exact) < np.median(plain)
        assert exact.max() <= plain.max()
