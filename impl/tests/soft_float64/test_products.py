"""Products of digits of int8 are within the bound that products of float64 have.

Tests: impl._soft_float64.products.
"""

import functools
from fractions import Fraction

import jax
import numpy as np
import pytest

from impl._soft_float64 import products
from impl.tests.soft_float64.numbers import numbers, words

#: The relative rounding error of float64.
U = 2.0**-53
MATRIX = (((1,), (0,)), ((), ()))


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def product(lhs, rhs, dimensions=MATRIX):
    function = jax.jit(functools.partial(products.dot_general, dimension_numbers=dimensions))
    return numbers(function(words(lhs), words(rhs)))


def factors(rng, terms, kind):
    shapes = (3, terms), (terms, 4)
    lhs, rhs = (rng.standard_normal(shape) for shape in shapes)
    if kind == "wide":
        lhs, rhs = (np.ldexp(x, rng.integers(-40, 40, x.shape)) for x in (lhs, rhs))
    if kind == "short":
        lhs, rhs = (x.astype(np.float32).astype(float) for x in (lhs, rhs))
    return lhs, rhs


@pytest.mark.parametrize("kind", ["plain", "wide", "short"])
@pytest.mark.parametrize("terms", [1, 2, 7, 8, 9, 100, 8193])
def test_the_error_is_within_the_bound_of_a_chain(rng, terms, kind):
    lhs, rhs = factors(rng, terms, kind)
    got = product(lhs, rhs)
    for i in range(3):
        for j in range(4):
            exact = sum(Fraction(a) * Fraction(b) for a, b in zip(lhs[i], rhs[:, j], strict=True))
            error = abs(float(Fraction(float(got[i, j])) - exact))
            assert error <= terms * U * np.linalg.norm(lhs[i]) * np.linalg.norm(rhs[:, j])


def test_whole_numbers_are_multiplied_without_error(rng):
    lhs, rhs = (rng.integers(-(1 << 20), 1 << 20, s).astype(float) for s in ((5, 64), (64, 6)))
    assert np.array_equal(product(lhs, rhs), lhs @ rhs)


@pytest.mark.parametrize("terms", [7, 8, 8193])
@pytest.mark.parametrize("bits", [0, 12, 26, 47])
def test_a_sum_that_float64_has_all_bits_of_has_no_error(rng, terms, bits):
    def rows(bits):
        most = int(2.0**bits / np.sqrt(terms))
        rows = rng.integers(-most, most, (3, terms), endpoint=True)
        rows[:, rng.integers(terms)] = 1 << bits
        return rows

    lhs, rhs = rows(bits), rows(52 - bits).T
    left, right = np.ldexp(lhs.astype(float), -bits), np.ldexp(rhs.astype(float), bits - 52)
    norms = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=0)
    assert (norms <= 2).all()
    want = lhs.astype(object) @ rhs.astype(object)
    assert np.array_equal(np.ldexp(product(left, right), 52).astype(np.int64), want)


def test_batches_and_several_contracted_dimensions(rng):
    lhs, rhs = rng.standard_normal((2, 3, 4, 5)), rng.standard_normal((5, 2, 6, 4))
    got = product(lhs, rhs, (((2, 3), (3, 0)), ((0,), (1,))))
    assert np.allclose(got, np.einsum("bikl,lbjk->bij", lhs, rhs), rtol=1e-14)
    assert product(np.ones((2, 0)), np.ones((0, 3))).tolist() == [[0.0] * 3] * 2


def test_infinities_and_nans_are_those_of_ieee_754(rng):
    special = [np.inf, -np.inf, np.nan]
    for terms in (3, 20):
        lhs, rhs = (rng.standard_normal(s) for s in ((40, terms), (terms, 30)))
        for x in (lhs, rhs):
            x[rng.random(x.shape) < 0.3] = 0
            is_special = rng.random(x.shape) < 0.03
            x[is_special] = rng.choice(special, is_special.sum())
        with np.errstate(all="ignore"):
            expected = (lhs[:, :, None] * rhs).sum(1)
        got = product(lhs, rhs)
        is_number = np.isfinite(expected)
        assert 0 < is_number.sum() < expected.size
        assert np.array_equal(got[~is_number], expected[~is_number], equal_nan=True)
        assert np.isfinite(got[is_number]).all()
