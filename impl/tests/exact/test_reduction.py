"""Sums over axes, running sums and products, and sums of a few arrays, against the oracles.

Tests: impl._exact.arithmetic, impl._exact.running.cumlogsumexp, impl._exact.running.cumprod,
impl._exact.sums.terms, impl._exact.unrounded.states.
"""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import arithmetic
from impl._exact.running import cumlogsumexp, cumprod
from impl._exact.sums import reduction, terms
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
def test_products_inside_a_lowering_rule(rng):
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


#: How far the exponents of terms are apart, at most, half of it to each side.
SPREADS = {"float16": (3, 7), "bfloat16": (8, 60), "float32": (12, 60), "float64": (40, 450)}


def nearest(total, dtype):
    """Returns a fraction, rounded to the nearest float that is not subnormal, ties to even."""
    limits = jnp.finfo(dtype)
    if not total:
        return 0.0
    exponent = total.numerator.bit_length() - total.denominator.bit_length()
    exponent -= abs(total) < Fraction(2) ** exponent
    least = limits.minexp - limits.nmant if dtype == "float16" else -5000
    unit = Fraction(2) ** max(exponent - limits.nmant, least)
    rounded = round(total / unit) * unit
    is_subnormal = abs(rounded) < Fraction(float(limits.smallest_normal))
    return 0.0 if is_subnormal and dtype != "float16" else float(rounded)


def exact(rows, dtype):
    """Returns the exact sum of each column, rounded once."""
    sums = [sum(map(Fraction, map(float, column))) for column in np.asarray(rows).T]
    return np.array([nearest(total, dtype) for total in sums]).astype(DTYPES[dtype])


def hard(rng, count, dtype, spread):
    """Returns terms that cancel, and terms that decide a tie, in any order."""
    rows = rough(rng, (count, 600), dtype, spread).astype(np.float64)
    powers = np.sign(rows) * 2.0 ** np.round(np.log2(np.abs(rows) + 1e-300))
    rows = np.where(rng.random(rows.shape) < 0.4, powers, rows)
    rows[1, ::2] = -rows[0, ::2]
    rows[1, ::4] *= 1 + 2.0 ** -rng.integers(1, 20, rows[1, ::4].shape)
    rows[rng.random(rows.shape) < 0.05] = 0
    return rng.permuted(rows, axis=0).astype(DTYPES[dtype])


@pytest.mark.parametrize("count", [2, 3, 4, 8, 17])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sum_is_the_nearest_float_to_the_sum_of_fractions(rng, dtype, count):
    for spread in SPREADS[dtype]:
        rows = hard(rng, count, dtype, spread)
        got = run(terms.add, *rows)
        assert np.isfinite(got.astype(np.float64)).all()
        assert_same(got, exact(rows, dtype), spread)


def test_a_tie_is_decided_by_the_least_term():
    half, least = 2.0**-24, 2.0**-120
    rows = np.array([[1, 1, 1, 1 + 2 * half], [half] * 4, [0, least, -least, 0]], np.float32)
    want = np.array([1, 1 + 2 * half, 1, 1 + 4 * half], np.float32)
    for order in itertools.permutations(rows):
        assert_same(run(terms.add, *order), want)
    # A tie that the fourth float64 decides.
    rows = [np.array([each]) for each in (1.0, 2.0**-53, 2.0**-107, -(2.0**-107) * (1 - 2.0**-50))]
    for order in itertools.permutations(rows):
        assert run(terms.add, *order)[0] == 1 + 2.0**-52


def test_doubles_at_the_ends_of_their_range():
    greatest, least = np.finfo(np.float64).max, np.finfo(np.float64).tiny
    columns = [
        (greatest, greatest, -greatest, greatest),
        (greatest, 2.0**969, greatest, np.inf),
        (1.5 * least, -least, least, 1.5 * least),
        (1.5 * least, -least, 0, 0),
        (2.0**600, -(2.0**600), 3 * 2.0**-800, 3 * 2.0**-800),
        (2.0**600, -(2.0**600), 3 * 2.0**-950, 3 * 2.0**-950),
    ]
    *rows, want = map(np.array, zip(*columns, strict=True))
    for order in itertools.permutations(rows):
        assert_same(run(terms.add, *order), want)


@pytest.mark.parametrize("count", [3, 9, 33])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_special_values_and_zeros_have_one_result_in_every_order(dtype, count):
    columns = [
        ((np.inf, 1, 2), np.inf),
        ((np.inf, -np.inf, 2), np.nan),
        ((np.nan, 1, -np.inf), np.nan),
        ((-np.inf, -np.inf, 2), -np.inf),
        ((-0.0, 0.0, -0.0), 0.0),
        ((1, -0.0, -1), 0.0),
        ((-0.0, -0.0, -0.0), -0.0),
    ]
    want = np.array([total for _, total in columns]).astype(dtype)
    rows = list(np.array([each for each, _ in columns]).T.astype(dtype))
    rows += [np.full(len(columns), -0.0, dtype)] * (count - 3)
    for order in itertools.permutations(rows[:3]):
        assert_same(run(terms.add, *order, *rows[3:]), want)


def test_the_greatest_sum_becomes_an_infinity_only_at_the_end():
    greatest = np.finfo(np.float32).max
    rows = np.array(
        [[greatest, greatest], [greatest, greatest], [-greatest, -(2.0**103)]], "float32"
    )
    assert_same(run(terms.add, *rows), np.array([greatest, np.inf], np.float32))


def test_more_terms_are_added_along_an_axis(rng):
    rows = np.round(rough(rng, (terms.MOST + 1, 50), spread=2) * 2**20) / np.float32(2**20)
    got = run(terms.add, *rows)
    assert_same(got, exact(rows, "float32"))
    assert_same(run(terms.add, *rng.permutation(rows)), got)


def test_constants_change_no_bit():
    x = np.array([1, 2.0**-24, -1.5, -0.0], np.float32)
    numbers = (1, 2.0**-24, -0.0)
    whole = [np.full_like(x, number) for number in numbers]
    want = run(terms.add, x, *whole)
    got = run(lambda x: terms.add(x, *map(jnp.asarray, whole)), x)
    assert_same(got, want)
