"""Sums, products, quotients and roots by integers have the bits of NumPy's float64.

Tests: impl._soft_float64.arithmetic, impl._soft_float64.words.
"""

from fractions import Fraction

import jax
import numpy as np
import pytest

from impl._soft_float64 import arithmetic
from impl.tests.soft_float64.numbers import SPECIAL, drawn, numbers, pairs, same, words

OPERATIONS = {
    "add": (arithmetic.add, np.add),
    "subtract": (arithmetic.subtract, np.subtract),
    "multiply": (arithmetic.multiply, np.multiply),
    "divide": (arithmetic.divide, np.divide),
}
#: The least normal number. A CPU without subnormal numbers decides after rounding to 53 bits, and
#: NumPy before, so results that round up to it are left out.
LEAST = 2.0**-1022


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True), np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_has_the_bits_of_float64(rng, name):
    function, expected = OPERATIONS[name]
    function = jax.jit(function)
    for a, b in pairs(rng):
        by_numpy = expected(a, b)
        is_border = np.abs(by_numpy) == LEAST
        assert np.all(same(function(words(a), words(b)), by_numpy) | is_border)


def test_a_root_has_the_bits_of_float64(rng):
    root = jax.jit(arithmetic.root)
    for a in [SPECIAL, *drawn(rng), np.arange(2000.0) ** 2]:
        assert np.all(same(root(words(a)), np.sqrt(a)))


def test_a_result_that_rounds_up_to_the_least_normal_number_is_kept():
    # 53 bits hold (1 + 2**-52) (1 - 2**-52), rounded to 1; the exact product is below the border.
    a, b = 2.0**-1022 * (1 + 2.0**-52), 1 - 2.0**-52
    assert Fraction(a) * Fraction(b) < Fraction(LEAST)
    assert numbers(arithmetic.multiply(words([a]), words([b]))) == LEAST
    assert numbers(arithmetic.multiply(words([LEAST]), words([1 - 2.0**-53]))) == 0


def test_signs_of_zeros():
    zeros = np.array([0.0, 0.0, -0.0, -0.0, 1.0]), np.array([0.0, -0.0, 0.0, -0.0, -1.0])
    got = numbers(arithmetic.add(*map(words, zeros)))
    assert got.tolist() == [0] * 5
    assert np.signbit(got).tolist() == [False, False, False, True, False]
