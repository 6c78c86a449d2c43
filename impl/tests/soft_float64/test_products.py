"""Products of digits of int8 are within their bounds, with as many digits as a rounding asks for.

Tests: impl._soft_float64.products, impl._exact.products.dot_general.
"""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from impl._exact.nearest import interval
from impl._exact.products.dot_general import Bits
from impl._soft_float64 import products
from impl.tests.soft_float64.numbers import numbers, words
from impl.tests.support.programs import equations

pytestmark = pytest.mark.usefixtures("wide")

#: The relative rounding error of float64.
U = 2.0**-53
MATRIX = (((1,), (0,)), ((), ()))
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)


_product = jax.jit(products.dot_general, static_argnames="dimension_numbers")


def product(lhs, rhs, dimensions=MATRIX):
    return numbers(_product(words(lhs), words(rhs), dimension_numbers=dimensions))


def factors(rng, terms, kind):
    shapes = (3, terms), (terms, 4)
    lhs, rhs = (rng.standard_normal(shape) for shape in shapes)
    if kind == "wide":
        lhs, rhs = (np.ldexp(x, rng.integers(-40, 40, x.shape)) for x in (lhs, rhs))
    if kind == "short":
        lhs, rhs = (x.astype(np.float32).astype(float) for x in (lhs, rhs))
    return lhs, rhs


@pytest.mark.parametrize(
    ("terms", "kind"), [*itertools.product((1, 8, 9), ("plain", "wide", "short")), (8193, "wide")]
)
def test_the_error_is_within_the_bound_of_a_chain(rng, terms, kind):
    lhs, rhs = factors(rng, terms, kind)
    got = product(lhs, rhs)
    for i in range(3):
        for j in range(4):
            exact = sum(Fraction(a) * Fraction(b) for a, b in zip(lhs[i], rhs[:, j], strict=True))
            error = abs(float(Fraction(float(got[i, j])) - exact))
            assert error <= terms * U * np.linalg.norm(lhs[i]) * np.linalg.norm(rhs[:, j])


def rows_of(rng, shape, kind):
    """Returns factors; float32 holds each kind."""
    value = rng.standard_normal(shape)
    if kind == "wide":
        value = np.ldexp(value, rng.integers(-40, 40, shape))
    if kind == "one is huge":
        value = np.ldexp(value, rng.integers(-60, 0, shape))
        value[:, 0] = 2.0 ** rng.integers(0, 60)
    if kind == "ones and zeros":
        value = (value > 0).astype(float)
    if kind == "long":
        value = rng.choice([-1, 1], shape) * (2 - 2.0**-23)
    if kind == "digits of 127.5":
        value = np.full(shape, (127.5 + 2.0**-8) / 128)
    if kind == "tiny":
        value = np.ldexp(value, -100)
    return value.astype(np.float32).astype(float)


KINDS = (
    "plain", "wide", "one is huge", "ones and zeros", "long", "digits of 127.5", "tiny",
)  # fmt: skip


@functools.cache
def approximation(factors, result, *, by_words):
    function = products.approximate_by_words if by_words else products.approximate
    bits = Bits.of(factors, factors, result)
    return jax.jit(lambda lhs, rhs: function(lhs, rhs, MATRIX, bits))


def approximated(lhs, rhs, factors, result, *, by_words=False):
    """Returns an approximation, whose arrays are of NumPy: each element of JAX's is a program."""
    return jax.tree.map(np.asarray, approximation(factors, result, by_words=by_words)(lhs, rhs))


@pytest.mark.parametrize("result", ["bfloat16", "float16", "float32", "float64"])
def test_the_error_is_within_the_bound_of_an_approximation(rng, result):
    # No row has a part in the digits of another one.
    for terms in (8, 300):
        lhs, rhs = (np.concatenate([rows_of(rng, (1, terms), k) for k in KINDS]) for _ in range(2))
        lhs[:, 3:] *= rng.random(terms - 3) > 0.1
        given = lhs, rhs.T, FLOAT32, jnp.dtype(result)
        found, by_words = approximated(*given), approximated(*given, by_words=True)
        assert np.array_equal(found.total, by_words.total)
        assert np.array_equal(found.excess, by_words.excess)
        for i, j in np.ndindex(found.total.shape):
            terms_of = zip(lhs[i], rhs[j], strict=True)
            exact = sum(Fraction(a) * Fraction(b) for a, b in terms_of)
            error = abs(Fraction(float(found.total[i, j])) - exact)
            norms = np.linalg.norm(lhs[i]) * np.linalg.norm(rhs[j])
            bound = interval.of_chain(found.roundings) * norms
            assert float(error) <= bound + found.excess[i, j]


def test_an_excess_is_zero_if_nothing_is_left_out(rng):
    whole = rng.integers(-60, 60, (5, 64)).astype(float)
    ones = np.eye(64)[rng.integers(0, 64, 6)]
    rough = rows_of(rng, (5, 64), "plain")
    for lhs, rhs, result in [(whole, whole, BFLOAT16), (rough, ones, FLOAT32)]:
        found = approximation(FLOAT32, result, by_words=False)(lhs, rhs.T)
        assert not np.any(found.excess)
        assert np.array_equal(found.total, lhs @ rhs.T)
    # The last bit of one element is below the last digit.
    rough[0, 7] = 1.5 * 2.0**-60
    ones[0, 7] = 1
    found = approximation(FLOAT32, FLOAT32, by_words=False)(rough, ones.T)
    assert found.excess[0, 0] > 0
    assert not np.any(found.excess[1:])


@pytest.mark.parametrize(("result", "bits"), [("float32", 22), ("float16", 21)])
def test_an_excess_has_the_rounding_of_a_sum_of_all_digits(rng, result, bits):
    # Nothing is left out, and the sums have more bits than a float64.
    lhs, rhs = (rng.integers(1 << (bits - 1), 1 << bits, (4, 8192)) for _ in range(2))
    found = approximation(FLOAT32, jnp.dtype(result), by_words=False)(
        lhs.astype(float), rhs.T.astype(float)
    )
    exact = lhs.astype(object) @ rhs.T.astype(object)
    errors = abs(np.vectorize(int)(found.total).astype(object) - exact)
    assert found.roundings == 0
    assert (errors > 0).any()
    assert (errors <= np.asarray(found.excess)).all()


@pytest.mark.parametrize(
    ("factors", "result", "terms", "count"),
    [
        ("float32", "float32", 512, 21),
        ("float32", "float32", 4096, 28),
        ("float32", "bfloat16", 512, 10),
        ("bfloat16", "float32", 512, 15),
        ("bfloat16", "bfloat16", 4096, 10),
        ("float16", "float16", 512, 10),
        ("float32", "float64", 512, 36),
    ],
)
def test_the_number_of_products_of_int8(factors, result, terms, count):
    pair = (jax.ShapeDtypeStruct(s, np.float64) for s in ((3, terms), (terms, 4)))
    function = approximation(jnp.dtype(factors), jnp.dtype(result), by_words=False)
    done = [
        math.prod(each.invars[0].aval.shape) // (3 * terms)
        for each in equations(jax.make_jaxpr(function)(*pair))
        if each.primitive.name == "dot_general" and each.invars[0].aval.dtype == np.int8
    ]
    assert sum(done) == count
    assert sorted(done) == list(range(1, len(done) + 1))


@pytest.mark.parametrize(
    ("factors", "result"),
    [("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"),
     ("float16", "float16"), ("float32", "bfloat16")],
)  # fmt: skip
def test_about_one_in_a_thousand_is_in_doubt(rng, factors, result):
    factors, result = jnp.dtype(factors), jnp.dtype(result)
    lhs, rhs = (
        rng.standard_normal((200, 512)).astype(factors).astype(np.float64) for _ in range(2)
    )
    found = approximated(lhs, rhs.T, factors, result)
    norms = np.outer(np.linalg.norm(lhs, axis=1), np.linalg.norm(rhs, axis=1))
    error = interval.of_chain(found.roundings) * norms + found.excess
    doubt = jax.jit(lambda *a: interval.is_doubt(interval.rounded(*a, result)))(found.total, error)
    assert np.mean(doubt) < 2e-3


@pytest.mark.parametrize(("terms", "bits"), [(7, 0), (7, 47), (8, 12), (8193, 26)])
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
