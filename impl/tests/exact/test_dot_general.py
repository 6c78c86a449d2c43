"""Products of matrices, against the oracle in integers."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

from impl._exact import arithmetic
from impl._exact.products import dot_general
from impl.tests.exact._products import MATRICES, dot, expected_dot, rough
from impl.tests.exact._sums import DTYPES, assert_same, run
from impl.tests.exact._terms import hard_matrix
from impl.tests.support.bits import assert_same_bits
from spec import oracles

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PRECISIONS = (None, "highest", lax.Precision.HIGH, (lax.Precision.HIGHEST, lax.Precision.DEFAULT))
BATCHES = (((3, 1), (0, 2)), ((0,), (3,)))


@pytest.mark.parametrize(
    ("left", "right", "numbers", "dtypes"),
    [
        ((5, 60), (60, 7), MATRICES, (np.float32, np.float32, None)),
        ((33, 129), (129, 40), MATRICES, (np.float32, np.float32, None)),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, (np.float32, np.float32, None)),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, (BFLOAT16, BFLOAT16, None)),
        ((40,), (40,), (((0,), (0,)), ((), ())), (np.float16, np.float16, None)),
        ((6, 33), (33, 2), MATRICES, (BFLOAT16, BFLOAT16, np.float32)),
        ((6, 33), (33, 2), MATRICES, (BFLOAT16, np.float32, np.float64)),
        ((6, 33), (33, 2), MATRICES, (np.float32, np.float32, np.float64)),
        ((6, 33), (33, 2), MATRICES, (np.float32, np.float32, BFLOAT16)),
        ((6, 33), (33, 2), MATRICES, (np.float16, BFLOAT16, np.float16)),
        ((3,), (4, 2), (((), ()), ((), ())), (np.float32, np.float32, None)),
        ((3, 1, 2), (2, 1), (((1,), (1,)), ((2,), (0,))), (np.float32, BFLOAT16, None)),
    ],
)
def test_the_bits_are_those_of_the_oracle(left, right, numbers, dtypes):
    rng = np.random.default_rng(0)
    dtype = dtypes[2] or jnp.promote_types(*dtypes[:2])
    for binades in (3, 6) if np.float16 in dtypes else (6, 24, 60):
        lhs, rhs = (rough(rng, s, d, binades) for s, d in zip((left, right), dtypes, strict=False))
        got = dot(lhs, rhs, numbers, preferred_element_type=dtypes[2])
        assert_same_bits(got, expected_dot(lhs, rhs, numbers, dtype), f"{binades} binades")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    # The sums of the terms, with factors of one, with powers of two, and with one another.
    terms = hard_matrix(rng, 40, dtype)
    powers = 2.0 ** rng.integers(-4, 5, (40, 2))
    rhs = np.concatenate([np.ones((40, 1)), powers, terms], 1).astype(terms.dtype)
    multiply = functools.partial(dot_general.dot_general, dimension_numbers=MATRICES)
    got = run(
        lambda *a: {to: multiply(*a, preferred_element_type=t) for to, t in DTYPES.items()},
        *(terms.T, rhs),
    )
    for to, result in DTYPES.items():
        assert_same(got[to], expected_dot(terms.T, rhs, MATRICES, result), f"to {to}")


def test_products_that_cancel_everywhere():
    rng = np.random.default_rng(4)
    a, b = rough(rng, (9, 50), binades=12), rough(rng, (50, 8), binades=12)
    lhs, rhs = np.concatenate([a, a], 1), np.concatenate([b, -b], 0)
    assert_same_bits(dot(lhs, rhs), np.zeros((9, 8), np.float32))
    # Only the last term remains: far below the last bits of all others.
    lhs[:, -1], rhs[-1] = 0, 0
    lhs[:, 49], rhs[49] = 2.0**-60, 1
    assert_same_bits(dot(lhs, rhs), np.full((9, 8), 2.0**-60, np.float32))


def test_the_precision_changes_no_bit():
    rng = np.random.default_rng(6)
    lhs, rhs = rough(rng, (5, 60)), rough(rng, (60, 7))
    want = expected_dot(lhs, rhs, MATRICES, np.float32)
    for precision in PRECISIONS:
        assert_same_bits(dot(lhs, rhs, precision=precision), want, str(precision))


@pytest.mark.parametrize("terms", [1, 2, 9000])
def test_sums_of_any_length(terms):
    # All factors are as long and as great as a float32 allows, so that float64 rounds every sum.
    lhs = np.full((2, terms), 1 - 2.0**-24, np.float32)
    lhs[1, 1:] = 2.0**-13 + 2.0**-30
    rhs = np.ones((terms, 1), np.float32) - 2.0**-24
    for dtype in (np.float32, np.float64):
        got = dot(lhs, rhs, preferred_element_type=dtype)
        assert_same_bits(got, expected_dot(lhs, rhs, MATRICES, dtype))


def test_a_sum_is_rounded_once():
    # The sum is 1 + 2**-24 + 2**-60: no float64, so that a rounding to float64 would err.
    lhs = np.zeros((2, 9001), np.float32)
    lhs[:, :3] = 1, 2.0**-12, 2.0**-30
    rhs = np.zeros((9001, 1), np.float32)
    rhs[:3, 0] = 1, 2.0**-12, 2.0**-30
    lhs[1] = -lhs[0]
    want = {np.float32: 1 + 2.0**-23, np.float64: 1 + 2.0**-24, np.float16: 1}
    for dtype, value in want.items():
        got = dot(lhs, rhs, preferred_element_type=dtype)
        assert_same_bits(got, np.array([[value], [-value]], dtype))


def test_a_float64_is_rounded_once():
    # Halfway between two float64, and a small term above or below.
    half = [2.0**-53, 2.0**-53, 2.0**-53, 2.0**-52]
    rows = np.stack([np.ones(4), half, [0, 2.0**-90, -(2.0**-90), 2.0**-53]], 1)
    lhs = np.concatenate([rows, -rows]).astype(np.float32)
    got = dot(lhs, np.ones((3, 1), np.float32), preferred_element_type=np.float64)
    want = np.array([1, 1 + 2.0**-52, 1, 1 + 2.0**-51])
    assert_same_bits(got[:, 0], np.concatenate([want, -want]))


def test_nans_and_infinities():
    rng = np.random.default_rng(2)
    lhs, rhs = rough(rng, (6, 20)), rough(rng, (20, 5))
    lhs[0, 3], lhs[1, 4], lhs[1, 5], lhs[2, 6], lhs[3, 7] = np.nan, np.inf, np.inf, -np.inf, np.inf
    rhs[4:8] = np.abs(rhs[4:8])
    rhs[6, 1], rhs[5, 2], rhs[7, 3], rhs[9, 4] = 0, -1, 1e-30, np.inf
    want = expected_dot(lhs, rhs, MATRICES, np.float32)
    assert_same(dot(lhs, rhs), want)
    kinds = [np.isnan(want).any(), (want == np.inf).any(), (want == -np.inf).any()]
    assert kinds == [True] * 3
    # Finite results are the results of operands with zeros for NaNs and infinities.
    clean = dot(np.where(np.isfinite(lhs), lhs, 0), np.where(np.isfinite(rhs), rhs, 0))
    assert_same_bits(want[4:, :4], clean[4:, :4])
    assert np.isfinite(want[4:, :4]).all()


def test_only_terms_that_are_not_zero_count():
    rng = np.random.default_rng(3)
    lhs, rhs = rough(rng, (8, 60)), rough(rng, (60, 8))
    order = rng.permutation(60)
    padded = np.zeros((8, 300), np.float32), np.zeros((300, 8), np.float32)
    padded[0][:, 2:62], padded[1][2:62] = lhs, rhs
    longer = padded[0].copy(), padded[1].copy()
    longer[0][:, 62], longer[1][63] = 1e30, 1e30  # The other factor of each such index is zero.
    cases = {
        "permuted": (lhs[:, order], rhs[order]),
        "padded": padded,
        "zero terms": longer,
        "rows of a batch": (lhs[3:5], rhs),
        "a batch with other rows": (np.concatenate([lhs, lhs * 1e6]), rhs),
        "columns of other size": (lhs, np.concatenate([rhs, rhs * np.float32(1e20)], 1)),
    }
    want = dot(lhs, rhs)
    for name, (a, b) in cases.items():
        rows = slice(3, 5) if name == "rows of a batch" else slice(8)
        assert_same_bits(dot(a, b)[:8, :8], want[rows], name)
    assert_same_bits(dot(rhs.T, lhs.T), want.T)


def test_a_product_with_one_hot_rows_is_a_copy():
    rng = np.random.default_rng(8)
    rhs = rough(rng, (20, 6), binades=60)
    rhs[rhs == 0] = 1
    rhs[0, 2] = 2.0**-126
    chosen = np.eye(20, dtype=np.float32)[[3, 0, 0, 19]]
    assert_same_bits(dot(chosen, rhs), rhs[[3, 0, 0, 19]])


def test_a_product_within_a_lowering_rule_without_64_bits():
    rng = np.random.default_rng(4)
    lhs, rhs = rough(rng, (5, 60)), rough(rng, (60, 7))
    primitive = Primitive("exact_dot")
    primitive.def_abstract_eval(
        lambda a, b: jax.core.ShapedArray((a.shape[0], b.shape[1]), a.dtype)
    )

    def rule(context, *args):
        def multiply(a, b):
            return dot_general.dot_general(a, b, dimension_numbers=MATRICES)

        with arithmetic.wide():
            return jax.interpreters.mlir.lower_fun(multiply, multiple_results=False)(context, *args)

    jax.interpreters.mlir.register_lowering(primitive, rule)
    assert not jax.config.jax_enable_x64
    got = jax.jit(primitive.bind)(lhs, rhs)
    assert_same_bits(got, expected_dot(lhs, rhs, MATRICES, np.float32))
    narrow = lhs.astype(BFLOAT16), rhs.astype(BFLOAT16)
    got = jax.jit(primitive.bind)(*narrow)
    assert_same_bits(got, expected_dot(*narrow, MATRICES, BFLOAT16))


def test_a_batch_of_calls():
    rng = np.random.default_rng(5)
    lhs, rhs = rough(rng, (3, 5, 20)), rough(rng, (20, 4))
    with arithmetic.wide():
        multiply = functools.partial(dot_general.dot_general, dimension_numbers=MATRICES)
        mapped = np.asarray(jax.jit(jax.vmap(multiply, (0, None)))(lhs, rhs))
        # The batch is the right factor here.
        columns = np.asarray(jax.jit(jax.vmap(lambda a: multiply(rhs.T, a.T)))(lhs))
    assert_same_bits(mapped, np.stack([dot(each, rhs) for each in lhs]))
    assert_same_bits(columns, np.swapaxes(mapped, 1, 2))


def test_sums_without_terms_and_results_without_elements():
    for left, right in (((2, 0), (0, 3)), ((0, 4), (4, 3)), ((2, 4), (4, 0))):
        got = dot(np.ones(left, np.float32), np.ones(right, np.float32))
        assert_same_bits(got, np.zeros((left[0], right[1]), np.float32))


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
        (np.float64, np.float32, None, "takes floats of 32 bits or fewer, not float64"),
        (np.complex64, np.float32, np.float32, "not complex64"),
        (np.float32, np.float32, np.complex64, "not to complex64"),
    ],
)
def test_dtypes_without_an_exact_product(lhs, rhs, result, message):
    with arithmetic.wide(), pytest.raises(TypeError, match=message):
        dot_general.dot_general(
            jnp.ones((2, 2), lhs),
            jnp.ones((2, 2), rhs),
            dimension_numbers=MATRICES,
            preferred_element_type=result,
        )


def test_the_oracle_finds_a_product_that_is_rounded_twice():
    # Were the oracle as forgiving as a tolerance, the tests above could not fail.
    lhs, rhs = np.float32([[1, 2.0**-12, 2.0**-30]]), np.float32([[1], [2.0**-12], [2.0**-30]])
    twice = np.float32(lhs.astype(np.float64) @ rhs.astype(np.float64))
    assert twice != oracles.nearest_product(lhs, rhs, np.float32)
