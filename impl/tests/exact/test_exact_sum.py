"""Exact sums of rows of float64, against the oracle in integers."""

import numpy as np
import pytest

from impl._exact.nearest.exact_sum import exact_sum
from impl._exact.products.shards import Cuts
from impl.tests.exact._sums import DTYPES, assert_same, rough, run
from impl.tests.exact._terms import outweighed_terms
from spec import oracles

COUNT = 13


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


@pytest.mark.parametrize("bits", [8, 11, 24, 53])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_rounded_once(rng, dtype, bits):
    terms = rows(rng, bits)
    want = oracles.nearest(terms.T, DTYPES[dtype])
    assert_same(run(lambda terms: exact_sum(terms, DTYPES[dtype], Cuts()), terms), want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rests_outweigh_the_sum_of_slices(dtype):
    half = 2.0 ** (-24 if dtype == "float32" else -53)
    terms = outweighed_terms(half).T
    want = np.full(len(terms), 1 + 2 * half, DTYPES[dtype])
    assert_same(oracles.nearest(terms.T, DTYPES[dtype]), want)
    assert_same(run(lambda terms: exact_sum(terms, DTYPES[dtype], Cuts()), terms), want)


@pytest.mark.parametrize("count", [1, 2, 300])
def test_few_and_many_terms(rng, count):
    terms = np.prod(rough(rng, (2, 4, count), spread=40).astype(np.float64), 0)
    for dtype in (np.float32, np.float64):
        want = oracles.nearest(terms.T, dtype)
        assert_same(run(lambda terms, to=dtype: exact_sum(terms, to, Cuts()), terms), want)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_leaves_other_rows_alone(rng, special):
    terms = rows(rng, 24)
    terms[[0, 5, -1], [3, 0, -1]] = special
    is_finite = np.isfinite(terms).all(1)
    want = oracles.nearest(terms[is_finite].T, np.float32)
    got = run(lambda terms: exact_sum(terms, np.float32, Cuts())[np.flatnonzero(is_finite)], terms)
    assert_same(got, want)
