"""Arithmetic on pairs of float64, and log, exp and atan as pairs, against exact numbers.

Tests: impl._exact.elementary._pairs, impl._exact.elementary._pair_functions.
"""

import decimal
from fractions import Fraction

import jax
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.elementary import _pair_functions, _pairs, logarithms

COUNT = 300
#: More digits than three float64 have.
DIGITS = decimal.Context(prec=60)


def run(function, *operands):
    with arithmetic.wide():
        return jax.tree.map(np.asarray, jax.jit(function)(*operands))


def exact(pair):
    return [Fraction(float(high)) + Fraction(float(low)) for high, low in zip(*pair, strict=True)]


def worst(pair, expected):
    """Returns the greatest relative error of a pair, as the logarithm of it to base 2."""
    errors = [
        abs(value / Fraction(right) - 1) for value, right in zip(exact(pair), expected, strict=True)
    ]
    return np.log2(float(max(errors)))


@pytest.fixture
def floats(rng):
    return rng.normal(size=(2, COUNT)) * 2.0 ** rng.integers(-60, 60, (2, COUNT))


@pytest.mark.parametrize("name", ["two_sum", "two_product"])
def test_an_operation_and_its_error_are_exact(floats, name):
    operation = {"two_sum": Fraction.__add__, "two_product": Fraction.__mul__}[name]
    a, b = floats
    pair = run(getattr(_pairs, name), a, b)
    expected = [operation(Fraction(x), Fraction(y)) for x, y in zip(a, b, strict=True)]
    assert exact(pair) == expected
    nearest = a + b if name == "two_sum" else a * b
    assert np.array_equal(pair[0], nearest)


def test_the_sum_with_a_smaller_number_is_exact(floats):
    a, b = floats
    a, b = np.where(abs(a) > abs(b), (a, b), (b, a))
    assert exact(run(_pairs.fast_two_sum, a, b)) == exact((a, b))


def test_products_and_sums_of_pairs(rng, floats):
    lows = floats * 2.0**-53 * rng.uniform(-0.5, 0.5, floats.shape)
    (a, b), (of_a, of_b) = floats, lows
    product = run(lambda *x: _pairs.times_pair(x[:2], x[2:]), a, of_a, b, of_b)
    factors = zip(exact((a, of_a)), exact((b, of_b)), strict=True)
    assert worst(product, [x * y for x, y in factors]) < -100
    total = run(lambda *x: _pairs.plus_pair(x[:2], x[2:]), abs(a), of_a, abs(b), of_b)
    terms = zip(exact((abs(a), of_a)), exact((abs(b), of_b)), strict=True)
    assert worst(total, [x + y for x, y in terms]) < -100


def test_rounding_to_odd_keeps_the_side_of_the_middle():
    middle = 1 + 2.0**-24
    high = np.array([middle, middle, middle, -middle, -middle, 2.0**-24, np.inf])
    low = np.array([2.0**-80, -(2.0**-80), 0, 2.0**-80, -(2.0**-80), 0, np.nan])
    result = run(lambda *x: arithmetic.narrow(_pairs.rounded_to_odd(x), np.float32), high, low)
    above = 1 + 2.0**-23
    assert result.tolist() == [above, 1, 1, -1, -above, 2.0**-24, np.inf]


def test_short():
    value = np.array([1 + 2.0**-25 + 2.0**-52, -(1 + 2.0**-26), 1 - 2.0**-26])
    assert run(lambda x: _pairs.short(x, 26), value).tolist() == [
        1 + 2.0**-25,
        -1 - 2.0**-25,
        1 - 2.0**-26,
    ]


def test_log(rng):
    x = np.exp(rng.uniform(-80, 80, COUNT)).astype(np.float32)
    x[: COUNT // 2] = rng.uniform(0.7, 1.5, COUNT // 2)

    def program(x):
        k, m = logarithms.parts(lax.convert_element_type(x, np.float64))
        return _pair_functions.pair_log(m, lax.convert_element_type(k, np.float64))

    expected = [decimal.Decimal(float(each)).ln(DIGITS) for each in x]
    assert worst(run(program, x), expected) < -73.5


def test_exp(rng):
    high = rng.uniform(-90, 90, COUNT)
    low = high * 2.0**-54 * rng.uniform(-1, 1, COUNT)
    (*pair,), n = run(lambda *x: _pair_functions.pair_exp(x), high, low)
    argument = [
        DIGITS.add(decimal.Decimal(a), decimal.Decimal(b)) for a, b in zip(high, low, strict=True)
    ]
    expected = [
        Fraction(each.exp(DIGITS)) / Fraction(2) ** int(k)
        for each, k in zip(argument, n, strict=True)
    ]
    assert worst(pair, expected) < -66.5


def arctangent(t):
    """Returns the inverse tangent of a fraction by its series, with the argument halved thrice."""
    x, one = DIGITS.divide(t.numerator, t.denominator), decimal.Decimal(1)
    for _ in range(3):
        root = DIGITS.sqrt(DIGITS.fma(x, x, one))
        x = DIGITS.divide(x, DIGITS.add(root, one))
    square, power, total = DIGITS.multiply(x, x), x, decimal.Decimal(0)
    for k in range(1, 81, 2):
        term = DIGITS.divide(power, k)
        total = DIGITS.add(total, term) if k % 4 == 1 else DIGITS.subtract(total, term)
        power = DIGITS.multiply(power, square)
    return 8 * Fraction(total)


def test_atan(rng):
    sides = abs(rng.normal(size=(2, COUNT)) * 2.0 ** rng.integers(-3, 3, (2, COUNT)))
    least, most = np.sort(sides.astype(np.float32).astype(np.float64), axis=0)
    expected = [arctangent(Fraction(a) / Fraction(b)) for a, b in zip(least, most, strict=True)]
    assert worst(run(_pair_functions.pair_atan, least, most), expected) < -75
