"""Exact sums of a few arrays, against sums of fractions.

Tests: impl._exact.arithmetic.
"""

import itertools
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from impl._exact.sums import terms
from impl.tests.exact._sums import DTYPES, assert_same, rough, run

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
