"""Products of matrices, by each engine that HLO has, against the oracle in integers.

Tests: impl._exact.products.dot_general, impl._exact.products.doubles,
impl._exact.products.layout.
"""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.products import dot_general
from impl._exact.products.dot_general import Bits
from impl._soft_float64 import interpreter, products
from impl.tests.exact._products import MATRICES, expected_dot, hard_factors, rough
from impl.tests.exact._sums import DTYPES, assert_same
from impl.tests.support.bits import assert_same_bits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ENGINES = {
    "float64": lambda function: function,
    "int8": interpreter.with_int8_products,
    "integers": interpreter.without_float64,
}


@functools.cache
def compiled(engine, **options):
    return jax.jit(ENGINES[engine](functools.partial(dot_general.dot_general, **options)))


def dot(lhs, rhs, numbers=MATRICES, engine="float64", **options):
    """Returns a product, by a program that serves all operands of one shape."""
    with arithmetic.wide():
        return np.asarray(compiled(engine, dimension_numbers=numbers, **options)(lhs, rhs))


#: The rows, terms and columns of all hard products, so that a program serves all of them.
SIZES = 40, 80, 36


@pytest.mark.parametrize(
    ("engine", "left", "right", "result"),
    [
        *(("float64", "float32", "float32", to) for to in DTYPES),
        ("float64", "bfloat16", "bfloat16", "bfloat16"),
        ("float64", "float16", "bfloat16", "float16"),
        ("float64", "bfloat16", "float32", "float64"),
        ("float64", "float64", "float64", "float64"),
        *(
            pytest.param(*case, marks=pytest.mark.once)
            for case in (
                *(("int8", "float32", "float32", to) for to in ("float32", "float64")),
                ("int8", "bfloat16", "bfloat16", "bfloat16"),
                ("int8", "float16", "float16", "float16"),
                ("int8", "float64", "float32", "float32"),
                ("float64", "float16", "float64", "float64"),
                ("integers", "float32", "float32", "float32"),
            )
        ),
    ],
)
def test_hard_products_have_the_bits_of_the_oracle(rng, engine, left, right, result):
    kind = np.float64 if "float64" in (left, right) else np.float32
    for name, (lhs, rhs) in hard_factors(rng, DTYPES[result], kind).items():
        with np.errstate(over="ignore"):
            lhs, rhs = lhs.astype(DTYPES[left]), rhs.astype(DTYPES[right])  # noqa: PLW2901
        (rows, terms), columns = lhs.shape, rhs.shape[1]
        padded = np.zeros(SIZES[:2], lhs.dtype), np.zeros(SIZES[1:], rhs.dtype)
        padded[0][:rows, :terms], padded[1][:terms, :columns] = lhs, rhs
        got = dot(*padded, engine=engine, preferred_element_type=DTYPES[result])[:rows, :columns]
        assert_same(got, expected_dot(lhs, rhs, MATRICES, DTYPES[result]), name)


BATCHES = (((3, 1), (0, 2)), ((0,), (3,)))


@pytest.mark.parametrize(
    ("left", "right", "numbers", "dtypes", "precision"),
    [
        ((33, 129), (129, 40), MATRICES, ("float32", "float32"), "highest"),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, ("float32", "float32"), lax.Precision.HIGH),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, ("bfloat16", "bfloat16"), None),
        ((40,), (40,), (((0,), (0,)), ((), ())), ("float16", "float16"), None),
        ((3,), (4, 2), (((), ()), ((), ())), ("float32", "float32"), None),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, ("float64", "float64"), None),
        (
            *((3, 1, 2), (2, 1), (((1,), (1,)), ((2,), (0,))), ("float32", "bfloat16")),
            (lax.Precision.HIGHEST, lax.Precision.DEFAULT),
        ),
    ],
)
def test_dimensions_have_the_bits_of_the_oracle(rng, left, right, numbers, dtypes, precision):
    for binades in (3, 6) if "float16" in dtypes else (6, 60):
        lhs, rhs = (
            rough(rng, shape, DTYPES[dtype], binades)
            for shape, dtype in zip((left, right), dtypes, strict=True)
        )
        want = expected_dot(lhs, rhs, numbers, jnp.promote_types(lhs.dtype, rhs.dtype))
        assert_same_bits(dot(lhs, rhs, numbers, precision=precision), want)


def test_sums_of_9000_terms():
    # All factors are as long and as great as a float32 allows, so that float64 rounds every sum.
    lhs = np.full((4, 9000), 1 - 2.0**-24, np.float32)
    lhs[1, 1:] = 2.0**-13 + 2.0**-30
    # The sum is 1 + 2**-24 + 2**-60: no float64, so that a rounding to float64 would err.
    lhs[2:], lhs[2:, :3] = 0, (1, 2.0**-12, 2.0**-30)
    lhs[3] = -lhs[2]
    rhs = np.stack([np.ones(9000, np.float32) - 2.0**-24, lhs[2]], 1)
    for dtype in (np.float32, np.float64, np.float16):
        got = dot(lhs, rhs, preferred_element_type=dtype)
        assert_same_bits(got, expected_dot(lhs, rhs, MATRICES, dtype))
    lhs, rhs = (x.astype(np.float64) * (1 + 2.0**-40) for x in (lhs, rhs))
    assert_same_bits(dot(lhs, rhs), expected_dot(lhs, rhs, MATRICES, np.float64))


@pytest.mark.parametrize("sizes", [(2, 0, 3), (0, 4, 3), (2, 4, 0)])
def test_sums_without_terms_and_results_without_elements(sizes):
    rows, terms, columns = sizes
    got = dot(np.ones((rows, terms), np.float32), np.ones((terms, columns), np.float32))
    assert_same_bits(got, np.zeros((rows, columns), np.float32))


def test_products_of_integers_are_those_of_jax():
    lhs = np.array([[1, -2, 3]], np.int8)
    got = dot(lhs, lhs.T, preferred_element_type=np.int32)
    assert_same_bits(got, np.array([[14]], np.int32))
    mixed = dot(lhs, np.array([[0.5], [0.25], [1]], np.float32))
    assert_same_bits(mixed, np.array([[3]], np.float32))


def test_long_integers_are_rounded_to_the_float_that_they_meet():
    lhs = np.array([[2**24 + 1, -7]], np.int32)
    for result in (dot(lhs, np.float32([[1], [0]])), dot(np.float32([[1, 0]]), lhs.T)):
        assert_same_bits(result, np.array([[2**24]], np.float32))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "message"),
    [
        (np.complex64, np.float32, np.float32, "not complex64"),
        (np.float32, np.float32, np.complex64, "not to complex64"),
    ],
)
def test_dtypes_without_an_exact_product(lhs, rhs, result, message):
    with pytest.raises(TypeError, match=message):
        dot(np.ones((2, 2), lhs), np.ones((2, 2), rhs), preferred_element_type=result)


def test_an_approximation_without_a_rounding_has_all_bits_of_float64(rng):
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
