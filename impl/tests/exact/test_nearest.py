"""Sums that are rounded once: by parts, by a rounding test, in stages, and with repairs of doubts.

Tests: impl._exact.nearest.exact_sum, impl._exact.nearest.interval, impl._exact.nearest.repair.
"""

import functools
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval, repair
from impl._exact.nearest.exact_sum import Addition
from impl._exact.products import convolution, dot_general
from impl.tests.exact._products import MATRICES, expected_dot
from impl.tests.exact._sums import (
    DTYPES,
    assert_same,
    hard_matrix,
    outweighed_terms,
    rough,
    run,
    serial_terms,
)
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


SHORT = ["float32", "float16", "bfloat16"]
#: The wanted result of a sum in doubt.
DOUBT = None


def check(dtype, cases):
    """Compares results, each from a value and the bound of its error, with the wanted ones."""
    dtype = DTYPES[dtype]
    values, errors, wanted = zip(*cases, strict=True)
    values, errors = np.array(values, np.float64), np.array(errors, np.float64)
    words = run(lambda value, error: interval.rounded(value, error, dtype), values, errors)
    is_doubt = np.array([want is DOUBT for want in wanted])
    np.testing.assert_array_equal(run(interval.is_doubt, words), is_doubt)
    want = np.array([0 if want is DOUBT else want for want in wanted]).astype(dtype)
    assert_same(words.view(dtype)[~is_doubt], want[~is_doubt])


@pytest.mark.parametrize("dtype", SHORT)
def test_a_bound_decides_unless_it_reaches_a_tie_or_the_overflow(dtype):
    info = ml_dtypes.finfo(DTYPES[dtype])
    half, greatest = 2.0 ** -(info.nmant + 1), float(info.max)
    tie, odd_tie, above = 1 + half, 1 + 3 * half, 1 + 2 * half
    last = greatest + 2.0 ** (info.maxexp - 2 - info.nmant)
    less = last * 2.0**-40
    cases = [
        (tie, 0, 1),
        (odd_tie, 0, 1 + 4 * half),
        (-tie, 0, -1),
        (tie, 2.0**-50, DOUBT),
        (-tie, 2.0**-50, DOUBT),
        (tie + 2.0**-40, 2.0**-45, above),
        (tie - 2.0**-40, 2.0**-45, 1),
        (-tie - 2.0**-40, 2.0**-45, -above),
        (tie + 2.0**-40, 2.0**-39, DOUBT),
        # The bound itself may be too small by a factor of 1 + 2**-11.
        (tie + 2.0**-40, 2.0**-40 * (1 - 2.0**-11), DOUBT),
        # float64 rounds the ends of the interval.
        (tie + 2.0**-52, 2.0**-80, DOUBT),
        (1, 2.0**-30, 1),
        (last, 0, np.inf),
        (last - less, 0, greatest),
        (last - less, less / 4, greatest),
        (last + less, less / 4, np.inf),
        (-last - less, less / 4, -np.inf),
        (last - less, 2 * less, DOUBT),
        (-last + less, 2 * less, DOUBT),
        (1, np.inf, DOUBT),
    ]
    tiny = 2.0**-126
    of_float32 = [(-tiny / 4, tiny / 8, 0.0), (0.0, tiny / 4, 0.0), (tiny, tiny / 4, DOUBT)]
    check(dtype, cases + (of_float32 if dtype == "float32" else []))


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_infinities_and_nans_are_decided(dtype):
    nan = np.array(-1, np.int64).view(np.float64)
    zeros = [(-0.0, 0, 0.0), (0.0, 0, 0.0), (0.0, 1, DOUBT), (1.5, 0, 1.5)]
    infinities = [(np.inf, 1, np.inf), (-np.inf, np.inf, -np.inf), (np.inf, np.nan, np.inf)]
    check(dtype, [*zeros, *infinities, (np.nan, 1, np.nan), (nan, np.nan, np.nan)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_float_has_the_word_of_a_doubt(dtype):
    dtype = DTYPES[dtype]
    word = interval.word_type(dtype)
    patterns = np.array([-1, -2, 0, np.iinfo(word).max, np.iinfo(word).min], word)
    words = run(interval.word_of, patterns.view(dtype))
    assert words.dtype == word
    assert interval.IN_DOUBT not in words
    assert_same(words.view(dtype), patterns.view(dtype))


@pytest.mark.parametrize(
    ("terms", "power"),
    [
        ([1.0], 0),
        ([0.75, 1024, 0, -(2.0**-10)], -10),
        ([3 * 2.0**-20, 5.0], -20),
        ([1 + 2.0**-23], -23),
        ([2.0**-126, np.nan], -126),
        ([np.inf, 6.0], 1),
        (2.0 ** np.arange(-30, 30), -30),
    ],
)
def test_all_terms_are_multiples_of_their_last_bit(terms, power):
    found = int(run(repair._of_all, np.array(terms, np.float32))) - 126
    # Bits of one term and the exponent of another one may give a smaller power; a bit may not.
    assert power - (23 if len(terms) < 60 else 0) <= found <= power
    values = np.array([each for each in terms if np.isfinite(each)]) / 2.0**found
    assert (values == np.round(values)).all()


@pytest.mark.parametrize(("most", "exact"), [(2.0**40, True), (2.0**43, False)])
def test_a_bound_is_0_where_float64_has_all_bits(most, exact):
    chain = interval.of_chain(10)

    def error(most):
        last = (np.int32(126 - 5), np.int32(126 - 6))
        return repair._unless_exact(most * jnp.float64(chain), chain, *last)

    got = run(error, np.array([most]))
    assert (float(got[0]) == 0) == exact


INTERPOLATING = np.kron(np.eye(32), [0.25, 0.75]) + np.kron(np.eye(32, k=1), [0.75, 0.25])


def test_ties_of_short_weights_are_in_no_doubt(rng, monkeypatch):
    def unrepaired(coded, dtype, *_):
        return lax.bitcast_convert_type(coded, dtype)

    monkeypatch.setattr(repair, "repaired_sums", unrepaired)
    rows, taps = rng.standard_normal((256, 32)).astype(np.float32), [0.25, 0.75, 0.5]
    numbers = lax.conv_dimension_numbers((256, 1, 32), (1, 1, 3), ("NCW", "OIW", "NCW"))
    window = {"window_strides": (1,), "padding": ((0, 0),), "dimension_numbers": numbers}
    product = functools.partial(dot_general.dot_general, dimension_numbers=MATRICES)
    convolved = functools.partial(convolution.conv_general_dilated, **window)
    results = [
        run(product, rows, INTERPOLATING.astype(np.float32)),
        run(convolved, rows[:, None], np.array([[taps]], np.float32))[:, 0],
    ]
    wide = rows.astype(np.float64)
    sums = wide @ INTERPOLATING, sum(w * wide[:, k : 30 + k] for k, w in enumerate(taps))
    for got, want in zip(results, sums, strict=True):
        narrow = want.astype(np.float32)
        far = np.where(narrow > want, -np.inf, np.inf).astype(np.float32)
        is_tie = abs(want - narrow) == abs(want - np.nextafter(narrow, far).astype(np.float64))
        assert is_tie.sum() > 100
        assert_same(got, narrow)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _program(words, table, dtype, terms):
    return repair.repaired(words, dtype, terms, lambda at: table[at])


def check_repair(values, is_doubt, terms=1):
    """Repairs the elements in doubt, and compares the result with the values."""
    words = np.array(values).view(interval.word_type(values.dtype))
    words[is_doubt] = interval.IN_DOUBT
    # An element that is not in doubt must not be computed.
    table = np.where(is_doubt, values, np.array(77, values.dtype)).reshape(-1)

    with arithmetic.wide():
        got = _program(words, table, values.dtype, terms)
    assert_same(got, values, f"in doubt: {np.sum(is_doubt)} of {np.size(is_doubt)}")


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        # A trip computes at most 64 elements, so 1500 of them take up to 24 trips.
        *(("float32", shape) for shape in [(), (1,), (16,), (17,), (5, 7, 3), (1500,)]),
        *((dtype, (50,)) for dtype in DTYPES),
    ],
)
def test_elements_in_doubt_get_their_exact_values(rng, dtype, shape):
    values = rough(rng, shape, dtype, spread=5)
    if shape == (50,):
        values[:5] = np.nan, np.inf, -np.inf, 0, 1
    for share in (0, 0.05, 0.5, 1):
        check_repair(values.copy(), rng.random(shape) < share)


def test_a_single_element_in_doubt_and_one_of_many_terms_in_a_trip(rng):
    for position in (0, 15, 16, 31, 32, 36):
        check_repair(rough(rng, (37,)), np.arange(37) == position)
    check_repair(rough(rng, (70,)), rng.random(70) < 0.2, terms=1 << 18)


@pytest.mark.parametrize(
    ("sizes", "shortest"),
    [
        ((65536,), 512),
        ((16, 4096), 512),
        ((96, 1000), 96000 // 4),
        ((60, 40), 2400 // 4),
        ((9973,), None),
    ],
)
def test_chains_are_short_where_the_number_of_terms_has_divisors(sizes, shortest):
    count, two = math.prod(sizes), interval.Stages.of(sizes)
    chain = None if two is None else count // two.second + two.second
    assert chain == shortest if shortest in (None, 512) else chain < shortest


@pytest.mark.parametrize(
    ("left", "right", "numbers"),
    [
        ((16384, 2), (16384, 3), (((0,), (0,)), ((), ()))),
        ((2, 16384), (16384, 1), (((1,), (0,)), ((), ()))),
        ((4, 2, 2304), (2304, 3, 4), (((0, 2), (2, 0)), ((), ()))),
        ((128, 2, 96, 3), (2, 96, 128), (((0, 2), (2, 1)), ((1,), (0,)))),
    ],
)
def test_long_products_have_the_bits_of_the_oracle(rng, monkeypatch, left, right, numbers):
    monkeypatch.setattr(dot_general.Layout, "most_parts", 64)
    a, b = rough(rng, left), rough(rng, right)
    asked = []
    of = interval.Stages.of
    monkeypatch.setattr(interval.Stages, "of", lambda *args: asked.append(of(*args)) or asked[-1])
    got = run(lambda a, b: dot_general.dot_general(a, b, dimension_numbers=numbers), a, b)
    assert asked[0] is not None
    assert_same(got, expected_dot(a, b, numbers, np.float32))
