"""Sums over axes and running ones, against the oracle in integers."""

import jax
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.sums import reduction
from impl.tests.exact._sums import DTYPES, assert_same, lowered, rough, run
from impl.tests.exact._terms import hard_matrix, hard_terms
from spec import oracles


def program(x):
    return (
        reduction.reduce_sum(x, (0,)),
        reduction.reduce_sum(x[::-1], (0,)),
        reduction.reduce_sum(x[:, -5:], (1, 0)),
        reduction.cumsum(x, 0),
        reduction.cumsum(x, -2, reverse=True),
    )


@pytest.mark.parametrize("count", [8, 77])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bits_are_those_of_the_oracle(rng, dtype, count):
    x = hard_matrix(rng, count, dtype)
    got = run(program, x)
    want = oracles.nearest(x)
    assert_same(got[0], want)
    assert_same(got[1], want)
    assert_same(got[2], oracles.nearest(x[:, -5:].reshape(-1)))
    assert_same(got[3], oracles.nearest_running(x))
    assert_same(got[4], oracles.nearest_running(x[::-1])[::-1])


@pytest.mark.parametrize("count", [8, 77, 1024])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_rows_and_columns_have_the_bits_of_the_oracle(rng, dtype, count):
    x = hard_matrix(rng, count, dtype)
    x[:, 0], x[:3, 1], x[1:4, 2] = 0, (np.nan, 0, 1), (np.inf, 0, 1)
    x[:, 3] = 0
    x[:3, 3] = 1, 2.0**-8, 2.0**-14
    add = reduction.reduce_sum
    columns, rows = run(lambda x, y: (add(x, (0,)), add(y, (1,), np.float32)), x, x.T)
    assert_same(columns, oracles.nearest(x))
    assert_same(rows, oracles.nearest(x, np.dtype(np.float32)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_sums_of_another_dtype_are_rounded_once(rng, dtype):
    x = hard_matrix(rng, 20, dtype)
    got = run(lambda x: {n: reduction.reduce_sum(x, (0,), to) for n, to in DTYPES.items()}, x)
    for name, to in DTYPES.items():
        assert_same(got[name], oracles.nearest(x, to), name)


def test_overflow_and_underflow():
    greatest, tiny = np.finfo(np.float32).max, np.finfo(np.float32).tiny
    x = np.array([[greatest, greatest, tiny], [greatest, -greatest, -1.5 * tiny]], np.float32)
    want = np.array([np.inf, 0, 0], np.float32)
    assert_same(run(lambda x: reduction.reduce_sum(x, (0,)), x), want)
    # A sum that is between two float16, and closer to neither, takes the one whose last bit is 0.
    x = np.array([2049, 2.0**-15, -(2.0**-15)], np.float32)
    parts = run(lambda x: [reduction.reduce_sum(x[:n], (0,), np.float16) for n in (1, 2, 3)], x)
    assert [float(part) for part in parts] == [2048, 2050, 2048]


def test_float64_of_any_exponent(rng):
    x = rng.standard_normal((40, 8)) * 2.0 ** rng.integers(-1000, 1000, (40, 8))
    x[:20] = -x[20:]
    x[3], x[23] = 2.0**1023, 2.0**-1022
    x[:, :3] = 0
    x[:3, 0] = 1 + 2.0**-52, 2.0**-53, -(2.0**-1022)
    x[:3, 1] = 2.0**1000, -(2.0**946), 2.0**-1022
    x[:5, 2] = 2.0**1000, -(2.0**-1000), 2.0**-1010, 2.0**-1021, -(2.0**1000)
    assert_same(run(lambda x: reduction.reduce_sum(x, (0,)), x), oracles.nearest(x))


def test_a_running_sum_is_rounded_once():
    # The sum is above the middle of two float32 by less than a float64 of its size holds.
    x = np.array([1, 2.0**-24, 2.0**-56, -(2.0**-24)], np.float32)
    want = np.array([1, 1, 1 + 2.0**-23, 1], np.float32)
    assert_same(run(lambda x: reduction.cumsum(x, 0), x), want)


def test_axes_may_be_in_another_order(rng):
    x = rough(rng, (40, 2, 60))
    want = oracles.nearest(x.transpose(0, 2, 1).reshape(-1, 2))
    assert_same(run(lambda x: reduction.reduce_sum(x, (2, 0)), x), want)


@pytest.mark.parametrize("special", [np.inf, np.nan])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_end_of_an_axis_changes_no_running_sum_before_it(rng, reverse, special):
    x = rough(rng, (50,), spread=12)
    x[40:] *= np.float32(1e25)
    x[:3], x[45] = [1, 2.0**-24, 2.0**-80], special
    x = x[::-1] if reverse else x
    whole = run(lambda x: reduction.cumsum(x, 0, reverse=reverse), x)
    part = run(lambda x: reduction.cumsum(x, 0, reverse=reverse), x[10:] if reverse else x[:40])
    assert_same(whole[10:] if reverse else whole[:40], part)


@pytest.mark.parametrize("name", ["tie broken above", "broken tie with huge terms", "60 binades"])
def test_neither_the_order_of_terms_nor_zeros_change_a_bit(rng, name):
    x = hard_terms(rng, 60)[name]
    want = oracles.nearest(x)
    longer = np.insert(x, rng.integers(0, 61, 900), np.float32(0))
    for each in (x, rng.permutation(x), np.sort(x), longer):
        assert_same(run(lambda x: reduction.reduce_sum(x, (0,)), each), want)


def test_a_sum_without_terms_is_zero():
    out = run(
        lambda x: (reduction.reduce_sum(x, (1,)), reduction.cumsum(x, 1)),
        np.zeros((3, 0), np.float32),
    )
    assert_same(out[0], np.zeros(3, np.float32))
    assert out[1].shape == (3, 0)


def test_eager_and_vmap_give_the_same_bits(rng):
    x = rough(rng, (5, 40))
    want = oracles.nearest(x.T)
    with arithmetic.wide():
        assert_same(reduction.reduce_sum(jax.numpy.asarray(x), (1,)), want)
    assert_same(run(jax.vmap(lambda row: reduction.reduce_sum(row, (0,))), x), want)


@pytest.mark.usefixtures("complete")
def test_inside_a_lowering_rule(rng):
    x = rough(rng, (40, 3))
    assert not jax.config.jax_enable_x64
    assert_same(lowered(lambda x: reduction.reduce_sum(x, (0,)), x), oracles.nearest(x))
