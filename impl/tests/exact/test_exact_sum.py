"""Sums by parts, against the oracle in integers, for a device that adds in the worst order.

Tests: impl._exact.nearest.frames.
"""

import numpy as np
import pytest
from jax import lax

from impl._exact.nearest import exact_sum
from impl._exact.nearest.exact_sum import Addition
from impl.tests.exact._sums import DTYPES, assert_same, rough, run
from impl.tests.exact._terms import hard_matrix, outweighed_terms, serial_terms
from spec import oracles

COUNT = 13


def serial(x):
    """Returns the sums along the first axis, added one term after another."""

    def step(total, term):
        return lax.add(total, term), None

    return lax.scan(step, lax.full_like(x[0], 0), x)[0]


def rounded(x, dtype, **options):
    """Returns the sums along the first axis, rounded once."""
    how = Addition(serial, len(x), **options)
    return run(lambda x: how.rounded(dtype, x), x)


def assert_rounded(x, **options):
    """Requires the oracle's sums along the first axis in each dtype, all by one program."""
    how = Addition(serial, len(x), **options)
    got = run(lambda x: {to: how.rounded(dtype, x) for to, dtype in DTYPES.items()}, x)
    for to, dtype in DTYPES.items():
        assert_same(got[to], oracles.nearest(x, dtype), f"to {to}, {options}")


@pytest.mark.parametrize("name", serial_terms())
def test_the_order_of_terms_may_be_the_worst_one(name):
    x = serial_terms()[name]
    wrong = np.cumsum(x.astype(np.float64))[-1].astype(np.float32)
    want = oracles.nearest(x)
    assert wrong != want
    assert_same(rounded(x[:, None], np.float32), want[None])


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    assert_rounded(hard_matrix(rng, 20, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_terms_are_rounded_once(rng, dtype):
    x = rough(rng, (2, 300), dtype, 7 if dtype == "float16" else 40)
    # A tie of a shorter dtype, which the other term decides.
    x[:, 0] = 1 + 2.0**-8, 2.0 ** (-24 if dtype == "float16" else -60)
    assert_rounded(x)


@pytest.mark.parametrize(("count", "power"), [(0, 0), (1, 0), (2, 1), (3, 2), (1024, 10)])
def test_the_logarithm_of_a_number_of_terms(count, power):
    assert exact_sum.log2_above(count) == power


def rows(rng, bits):
    """Returns rows of products of two float32, whose sums are hard to round to some bits."""
    half, least = 2.0**-bits, 2.0**-200
    products = np.prod(rough(rng, (2, 6)).astype(np.float64), 0)
    far = np.prod(rough(rng, (2, COUNT), spread=60).astype(np.float64), 0)
    sums = [
        [*products, *-products],
        [*products, *-products, least],
        [*products, *-products, -least],
        [1, half],
        [1, half, least],
        [1, 2 * half, half],
        [1, 2 * half, half, -least],
        [-1, -half, -least],
        [-1, -2 * half, -half, least],
        [2.0**200, 1, half, least, -(2.0**200)],
        [2.0**200, 2.0**100, -(2.0**200), least, -(2.0**100)],
        [1, half, 2.0**-90, -(2.0**-90), least],
        [3 * least, *[-least] * 3],
        np.full(COUNT, -0.0),
        rng.standard_normal(COUNT).astype(np.float32),
        far,
    ]
    out = np.zeros((len(sums), COUNT))
    for row, terms in zip(out, sums, strict=True):
        row[rng.permutation(COUNT)[: len(terms)]] = terms
    return out


@pytest.mark.parametrize("are_products", [False, True])
def test_rows_are_rounded_once(rng, are_products):
    terms = np.concatenate([rows(rng, bits) for bits in (8, 11, 24, 53)])
    assert_rounded(terms.T, are_products=are_products)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_rests_outweigh_the_sum_of_slices(dtype):
    half = {"bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}[dtype]
    terms = outweighed_terms(half)
    want = np.full(terms.shape[1], 1 + 2 * half, DTYPES[dtype])
    assert_same(oracles.nearest(terms, DTYPES[dtype]), want)
    for are_products in (False, True):
        assert_same(rounded(terms, DTYPES[dtype], are_products=are_products), want)
    if dtype != "float64":
        assert_same(rounded(terms.astype(DTYPES[dtype]), DTYPES[dtype]), want)


@pytest.mark.parametrize("count", [1, 2, 300])
def test_few_and_many_terms(rng, count):
    terms = np.prod(rough(rng, (2, 4, count), spread=40).astype(np.float64), 0)
    for dtype in (np.float32, np.float64):
        want = oracles.nearest(terms.T, dtype)
        assert_same(rounded(terms.T, dtype, are_products=True), want)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_leaves_other_rows_alone(rng, special):
    terms = rows(rng, 24)
    terms[[0, 5, -1], [3, 0, -1]] = special
    is_finite = np.isfinite(terms).all(1)
    want = oracles.nearest(terms[is_finite].T, np.float32)
    assert_same(rounded(terms.T, np.float32, are_products=True)[is_finite], want)
