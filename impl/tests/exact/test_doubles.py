"""Functions of float64 and mpmath, at random and at known worst arguments, and special values.

Tests: impl._exact.elementary.doubles.trigonometric,
impl._exact.elementary.doubles.special_functions.
"""

import jax
import mpmath
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.elementary.doubles import FUNCTIONS

INF, NAN, LEAST = np.inf, np.nan, 2.0**-1022
#: Arguments whose values are close to the middle of two float64, and the worst angle of all.
WORST = {
    "sin": "0x1.9eb7148f354d6p+23 0x1.a679ce06e0605p-6 0x1.6ac5b262ca1ffp+849",
    "cos": "0x1.0f5840368d6b5p-11 0x1.fce36f3ebfe43p+931 0x1.3a0079b4deef3p+10",
    "tan": "0x1.1d3523fce55a2p-23 0x1.52b7a2de02e0ep-1 0x1.6ac5b262ca1ffp+849",
    "asin": "0x1.82c2fff2ef9b2p-1 0x1.ac94f3debc768p-8 0x1.28058651a586bp-12",
    "acos": "0x1.1ce9355d415dep-1 0x1.4e5ccedc7e6adp-7 0x1.39676733ae735p-52",
    "atan": "0x1.c4bd22db69203p-24 0x1.f0d0351b85ce8p-7 0x1.29255e9f9b878p+45",
    "erf": "0x1.a100e4f1b13b7p-32 0x1.0bf5195d72345p-58 0x1.891d0f7785616p-20",
    "erfc": "0x1.4f0aa8ef57773p-9 -0x1.673c8072548c4p-25 0x1.a8p+4",
    "erf_inv": "0x1.fffffffffffffp-1",
    "lgamma": "0x1.0000000000001p+0 0x1.fffffffffffffp+0 0x1p-1000",
    "digamma": "0x1.762d86356be3fp+0 0x1p-1000",
}
REFERENCES = {
    "erf_inv": lambda x: mpmath.findroot(
        lambda y: mpmath.erfc(y) - (1 - x), mpmath.mpf(float(mpmath.erfinv(x)))
    ),
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
}
SPECIAL = {
    "sin": [(0.0, 0), (-0.0, -0.0), (INF, NAN), (LEAST / 2, 0), (-LEAST, -LEAST)],
    "cos": [(0.0, 1), (-INF, NAN), (LEAST, 1)],
    "tan": [(-0.0, -0.0), (INF, NAN)],
    "asin": [(-0.0, -0.0), (-1, -np.pi / 2), (1.5, NAN)],
    "acos": [(0.0, np.pi / 2), (1, 0), (-1, np.pi), (-1.5, NAN), (LEAST, np.pi / 2)],
    "atan": [(-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2), (LEAST, LEAST)],
    "erf": [(-0.0, -0.0), (INF, 1), (-INF, -1), (LEAST / 2, 0)],
    "erfc": [(0.0, 1), (INF, 0), (-INF, 2), (27.3, 0)],
    "erf_inv": [(-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN)],
    "lgamma": [(0.0, INF), (-3, INF), (INF, INF), (-INF, INF), (1, 0), (2, 0), (1e306, INF)],
    "digamma": [(0.0, -INF), (-3, NAN), (INF, INF), (-INF, NAN)],
}
ANGLES = [
    *[(0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, np.pi), (-0.0, -1.0, -np.pi)],
    *[(INF, INF, np.pi / 4), (INF, -INF, 3 * np.pi / 4), (1.0, -INF, np.pi)],
    *[(INF, 1e308, np.pi / 2), (LEAST, 0.0, np.pi / 2), (LEAST, 2.0, 0.0)],
    *[(LEAST, 1.0, LEAST), (1e308, 1e-308, np.pi / 2), (NAN, 1.0, NAN), (1.0, NAN, NAN)],
]


def call(function, *operands):
    with arithmetic.wide():
        return jax.tree.map(np.asarray, jax.jit(function)(*operands))


def assert_same(result, want):
    np.testing.assert_array_equal(result, want)
    np.testing.assert_array_equal(np.signbit(result) & ~np.isnan(want), np.signbit(want))


@pytest.mark.parametrize("name", WORST)
def test_function_of_one(rng, name):
    x, want = np.float64(SPECIAL[name]).T
    bound = 1 if name in ("asin", "acos", "erf_inv") else 9
    more = [*rng.uniform(-bound, bound, 60), *map(float.fromhex, WORST[name].split())]
    with mpmath.workprec(1200 if name in ("sin", "cos", "tan") else 250):
        reference = REFERENCES.get(name) or getattr(mpmath, name)
        want = np.concatenate([want, [float(reference(mpmath.mpf(each))) for each in more]])
    x = np.concatenate([x, more])
    result = call(FUNCTIONS[name].full, x)
    assert_same(result, want)
    below, above = call(FUNCTIONS[name].quick, x)
    is_same = below.view(np.int64) == above.view(np.int64)
    assert is_same.mean() > 0.4
    np.testing.assert_array_equal(below[is_same], result[is_same])


def test_atan2(rng):
    y, x, want = np.float64(ANGLES).T
    assert_same(call(FUNCTIONS["atan2"].full, y, x), want)
    y, x = rng.standard_normal((2, 50)) * np.exp2(rng.uniform(-30, 30, (2, 50)))
    with mpmath.workprec(250):
        want = [float(mpmath.atan2(*map(mpmath.mpf, each))) for each in zip(y, x, strict=True)]
    assert_same(call(FUNCTIONS["atan2"].full, y, x), want)
