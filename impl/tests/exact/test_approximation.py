"""Products whose approximation has few digits have the bits of the oracle.

Tests: impl._exact.products.dot_general.
"""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl._exact.products.dot_general import Bits
from impl._soft_float64 import interpreter, products
from impl.tests.exact._products import MATRICES, expected_convolution, expected_dot, options, rough
from impl.tests.support.bits import assert_same_bits

ENGINES = {"int8": interpreter.with_int8_products, "integers": interpreter.without_float64}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@functools.cache
def _compiled(engine, function, **options):
    return jax.jit(ENGINES[engine](functools.partial(function, **options)))


#: The rows, terms and columns of all products here, so that a program serves several.
ROWS, TERMS, COLUMNS = 9, 81, 11


def dot(engine, lhs, rhs, result):
    """Returns a product, to whose factors rows, terms and columns of zeros are added."""
    options = {"dimension_numbers": MATRICES, "preferred_element_type": result}
    (rows, terms), columns = lhs.shape, rhs.shape[1]
    padded = np.zeros((ROWS, TERMS), lhs.dtype), np.zeros((TERMS, COLUMNS), rhs.dtype)
    padded[0][:rows, :terms], padded[1][:terms, :columns] = lhs, rhs
    with arithmetic.wide():
        product = _compiled(engine, dot_general.dot_general, **options)(*padded)
    return np.asarray(product)[:rows, :columns]


def check(engine, lhs, rhs, result):
    got = dot(engine, lhs, rhs, result)
    assert_same_bits(got, expected_dot(lhs, rhs, MATRICES, result))


PAIRS = [
    (np.dtype(np.float32), np.dtype(np.float32)),
    (np.dtype(np.float32), BFLOAT16),
    (BFLOAT16, BFLOAT16),
    (np.dtype(np.float16), np.dtype(np.float16)),
    (np.dtype(np.float32), np.dtype(np.float64)),
]


#: The engines differ in how they add; the dtypes are all tried with one of them.
EACH = [*(("int8", *pair) for pair in PAIRS), *(("integers", *PAIRS[i]) for i in (0, 2))]


@pytest.mark.parametrize(("engine", "dtype", "result"), EACH)
def test_terms_of_any_magnitudes(rng, engine, dtype, result):
    for binades in (0, 3) if dtype == np.float16 else (0, 6, 24, 60):
        lhs, rhs = (rough(rng, s, dtype, binades) for s in ((9, 70), (70, 11)))
        check(engine, lhs, rhs, result)


@pytest.mark.parametrize(
    ("engine", "result"),
    [
        ("int8", BFLOAT16),
        ("int8", np.dtype(np.float16)),
        *((e, np.dtype(np.float32)) for e in ENGINES),
    ],
)
def test_sums_next_to_ties(rng, engine, result):
    # The sum of the terms is a tie, or the least bit above or below one, which no digit has.
    half = float(jnp.finfo(result).eps) / 2
    lhs, rhs = np.zeros((8, 40), np.float32), np.ones((40, 3), np.float32)
    lhs[:, 0] = [1, 1, 1, -1, -1, -1, 1, 1]
    lhs[:, 1] = np.array([half, half, half, -half, -half, -half, 3 * half, half])
    lhs[:, 2] = [0, 2.0**-60, -(2.0**-60), 0, 2.0**-60, -(2.0**-60), 0, 2.0**-126]
    rhs[:, 1], rhs[:, 2] = 2.0**-20, rng.choice([-1, 1], 40)
    check(engine, lhs, rhs, result)


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_that_cancel(rng, engine):
    a, b = rough(rng, (6, 40), binades=12), rough(rng, (40, 5), binades=12)
    lhs = np.concatenate([a, a, rough(rng, (6, 1), binades=0) * 2.0**-60], 1).astype(np.float32)
    rhs = np.concatenate([b, -b, np.ones((1, 5))]).astype(np.float32)
    check(engine, lhs, rhs, BFLOAT16 if engine == "int8" else np.dtype(np.float32))


@pytest.mark.parametrize("engine", ENGINES)
def test_small_terms_beside_a_huge_one(rng, engine):
    lhs, rhs = rough(rng, (7, 30), binades=1), rough(rng, (30, 6), binades=1)
    lhs[:, 4] *= np.float32(2.0**70)
    rhs[4] = 0  # The greatest element of each row has no part in any sum.
    check(engine, lhs, rhs, np.dtype(np.float32))
    rhs[4, ::2] = 2.0**-100
    check(engine, lhs, rhs, np.dtype(np.float32))
    check(engine, lhs, rhs, BFLOAT16)


def test_a_product_without_a_rounding_has_all_bits_of_float64(rng):
    lhs, rhs = rng.standard_normal((2, 9, 9))

    def run(bits):
        with jax.enable_x64(True), dot_general.replaced(products.approximate):
            return dot_general.product(jnp.asarray(lhs), jnp.asarray(rhs), MATRICES, bits)

    whole = run(None)
    assert whole.excess is None
    assert np.allclose(whole.total, lhs @ rhs, rtol=1e-13, atol=1e-14)
    short = run(Bits.of(*[np.dtype(np.float32)] * 2, BFLOAT16))
    assert np.asarray(short.excess).any()
    assert np.allclose(short.total, lhs @ rhs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_infinities_and_nans(rng, engine):
    lhs, rhs = (rng.standard_normal(s).astype(np.float32) for s in ((9, 24), (24, 11)))
    for value in (lhs, rhs):
        value[rng.random(value.shape) < 0.2] = 0
        is_special = rng.random(value.shape) < 0.02
        value[is_special] = rng.choice([np.inf, -np.inf, np.nan], is_special.sum())
    with np.errstate(invalid="ignore"):
        plain = (lhs[:, :, None] * rhs.astype(float)).sum(1)
    got = dot(engine, lhs, rhs, np.dtype(np.float32))
    is_number = np.isfinite(plain)
    assert 0 < is_number.sum() < plain.size
    assert np.array_equal(got[~is_number], plain[~is_number], equal_nan=True)
    assert np.isfinite(got[is_number]).all()


@pytest.mark.parametrize(
    ("engine", "dtype", "result", "size"),
    [(*EACH[0], 7), (*EACH[0], 3), (*EACH[2], 7), (*EACH[5], 3)],
)
def test_convolutions_by_taps_and_by_positions(rng, engine, dtype, result, size):
    names = ("NCH", "OIH", "NCH")
    lhs, rhs = (rough(rng, s, dtype, 12) for s in ((3, 10, 7), (4, 10, 8 - size)))
    window = ((1,), ((0, 0),), (1,), (1,))
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, names)
    given = {"dimension_numbers": numbers, "preferred_element_type": result, "by_products": True}
    with arithmetic.wide():
        run = _compiled(engine, convolution.conv_general_dilated, **given, **options(window))
        got = np.asarray(run(lhs, rhs))
    assert_same_bits(got, expected_convolution(lhs, rhs, names, result, window))
