"""Exact products of matrices, against integers of any size.

Tests: impl._exact.products.engines, impl._exact.products.levels.
"""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

import spec.oracles
from impl._exact import arithmetic
from impl._exact.products import dot_general, engines
from impl._exact.products import levels as grids
from impl.tests.exact._products import MATRICES, dot, expected_dot, rough
from impl.tests.support.bits import assert_same_bits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HIGHEST = lax.Precision.HIGHEST
BATCHES = (((3, 1), (0, 2)), ((0,), (3,)))


def numbers_as_bits(value):
    """Returns an array in which all NaNs are one."""
    return np.where(np.isnan(np.asarray(value, np.float32)), np.array(np.nan, value.dtype), value)


@pytest.mark.parametrize(
    ("left", "right", "numbers", "dtypes", "highest"),
    [
        ((5, 60), (60, 7), MATRICES, (np.float32, np.float32, None), False),
        ((5, 60), (60, 7), MATRICES, (np.float32, np.float32, None), True),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, (np.float32, np.float32, None), False),
        ((2, 5, 3, 4), (4, 3, 5, 2), BATCHES, (BFLOAT16, BFLOAT16, None), False),
        ((40,), (40,), (((0,), (0,)), ((), ())), (np.float16, np.float16, None), False),
        ((6, 33), (33, 2), MATRICES, (BFLOAT16, BFLOAT16, np.float32), False),
        ((6, 33), (33, 2), MATRICES, (BFLOAT16, np.float32, np.float64), True),
        ((6, 33), (33, 2), MATRICES, (np.float16, BFLOAT16, np.float16), True),
        ((3,), (4, 2), (((), ()), ((), ())), (np.float32, np.float32, None), False),
        ((3, 1, 2), (2, 1), (((1,), (1,)), ((2,), (0,))), (np.float32, BFLOAT16, None), False),
    ],
)
def test_the_bits_are_those_of_the_oracle(left, right, numbers, dtypes, highest):
    rng = np.random.default_rng(0)
    binades = 8 if np.float16 in dtypes else 24
    lhs, rhs = (rough(rng, s, d, binades) for s, d in zip((left, right), dtypes, strict=False))
    dtype = dtypes[2] or jnp.promote_types(*dtypes[:2])
    got = dot(
        lhs,
        rhs,
        numbers,
        precision=(HIGHEST, HIGHEST) if highest else None,
        preferred_element_type=dtypes[2],
    )
    assert_same_bits(got, expected_dot(lhs, rhs, numbers, dtype, highest=highest))


def test_the_signs_of_zero_and_what_is_too_small_or_too_great():
    tiny = 2.0**-70
    lhs = np.array([[5, 1], [-0.0, 0], [tiny, 0], [-tiny, 0], [0, 2e38]], np.float32)
    rhs = np.array([[tiny, -tiny], [-5 * tiny, 2]], np.float32)
    want = expected_dot(lhs, rhs, MATRICES, np.float32)
    assert_same_bits(dot(lhs, rhs), want)
    assert want[:, 0].tolist()[:4] == [0, 0, 0, 0]
    assert np.signbit(want[:4, 0]).tolist() == [False, False, False, True]
    assert want[4, 1] == np.inf


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("float64", [(9000, np.float32, None), (9000, np.float32, HIGHEST)]),
        ("int8", [(300, BFLOAT16, None)]),
        ("bfloat16", [(600, np.float32, HIGHEST)]),
    ],
)
def test_every_engine_gives_the_same_bits(name, cases):
    rng = np.random.default_rng(1)
    operands = [(rough(rng, (3, n), dtype), rough(rng, (n, 2), dtype)) for n, dtype, _ in cases]

    def run(operands):
        return [
            dot_general.dot_general(a, b, dimension_numbers=MATRICES, precision=p, engine=name)
            for (a, b), (_, _, p) in zip(operands, cases, strict=True)
        ]

    with arithmetic.wide():
        results = jax.jit(run)(operands)
    for result, (lhs, rhs), (_, dtype, precision) in zip(results, operands, cases, strict=True):
        want = expected_dot(lhs, rhs, MATRICES, dtype, highest=precision == HIGHEST)
        assert_same_bits(result, want, str(lhs.shape))


@pytest.mark.parametrize("bits", [14, 23, 29, 30])
def test_digits_hold_the_integers_of_a_level(bits):
    count = engines._digits_of(bits)
    for value in (2**bits, -(2**bits), 0x80, -0x81, 2**bits - 0x80):
        with arithmetic.wide():
            digits = engines._digits(jnp.float64(value), count, np.int32)
        assert all(-128 <= digit <= 127 for digit in digits)
        assert sum(int(digit) << (8 * i) for i, digit in enumerate(digits)) == value


@pytest.mark.parametrize("terms", [1000, 8192, 8193])
def test_sums_reach_the_limits_of_float64_and_no_further(terms):
    # All factors are as great as their grids allow, or the first is, so that limbs are full.
    lhs = np.full((2, terms), 1 - 2.0**-24, np.float32)
    lhs[1, 1:] = 2.0**-13 + 2.0**-30
    rhs = np.ones((terms, 1), np.float32) - 2.0**-24
    for precision in (None, HIGHEST):
        want = expected_dot(lhs, rhs, MATRICES, np.float64, highest=precision is not None)
        got = dot(lhs, rhs, precision=precision, preferred_element_type=np.float64)
        assert_same_bits(got, want)


def test_low_limbs_are_added_in_blocks():
    # In the first column the first product is 1 in units, and all other low limbs have the
    # sum 2**57 before they cancel.
    terms = 1 << 16
    lhs, rhs = np.full((1, terms), (2.0**13 - 64) * 2.0**-30), np.full((terms, 2), 1 - 2.0**-24)
    lhs[:, terms // 2 :] *= -1
    lhs[0, [1, -2]], lhs[0, [0, -1]], rhs[0, 0] = (0.75, -0.75), (2.0**-30, 0), 2.0**-29
    got = dot(lhs.astype(np.float32), rhs.astype(np.float32), precision=HIGHEST)
    assert got[0, 0] == 2.0**-59


def test_a_sum_is_rounded_once():
    # The sum is 1 + 2**-24 + 2**-47: a float64 between two float32, so that a second rounding to
    # even would err.
    lhs = np.zeros((2, 9001), np.float32)
    lhs[:, :3] = 1, 2.0**-12, 2.0**-20
    rhs = np.zeros((9001, 1), np.float32)
    rhs[:3, 0] = 1, 2.0**-12, 2.0**-20
    lhs[1] = -lhs[0]
    for dtype in (np.float32, np.float16):
        got = dot(lhs, rhs, precision=HIGHEST, preferred_element_type=dtype)
        assert_same_bits(got, expected_dot(lhs, rhs, MATRICES, dtype, highest=True))
    values = (2**60 + 2**36 + 1, -(2**60) - 2**36 - 1, 2**59 - 2**35, 2**53 + 1, 2**40 + 2**16, -3)
    pairs = [(value, low) for value in values for low in (0, 1, 2**14 - 1)]
    for dtype in (np.float32, np.float64):
        with arithmetic.wide():
            high, low = (jnp.array(each, np.int64) for each in zip(*pairs, strict=True))
            unit = jnp.full(len(pairs), 2.0**-20, np.float64)
            got = jax.jit(
                lambda high, low, unit, dtype=dtype: engines.rounded(
                    engines.Total(high, low, 14), unit, dtype
                )
            )(high, low, unit)
        exact = [value * 2**14 + low for value, low in pairs]
        want = [spec.oracles.exact_products._rounded(each, -20, dtype) for each in exact]
        assert_same_bits(got, np.array(want, dtype))


def test_nans_and_infinities():
    rng = np.random.default_rng(2)
    lhs, rhs = rough(rng, (6, 20)), rough(rng, (20, 5))
    lhs[0, 3], lhs[1, 4], lhs[1, 5], lhs[2, 6], lhs[3, 7] = np.nan, np.inf, np.inf, -np.inf, np.inf
    rhs[4:8] = np.abs(rhs[4:8])
    rhs[6, 1], rhs[5, 2], rhs[7, 3], rhs[9, 4] = 0, -1, 1e-30, np.inf
    want = expected_dot(lhs, rhs, MATRICES, np.float32, highest=True)
    got = dot(lhs, rhs, precision=HIGHEST)
    assert_same_bits(numbers_as_bits(got), numbers_as_bits(want))
    want = expected_dot(lhs, rhs, MATRICES, np.float32)
    assert_same_bits(numbers_as_bits(dot(lhs, rhs)), numbers_as_bits(want))
    kinds = [np.isnan(want).any(), (want == np.inf).any(), (want == -np.inf).any()]
    assert kinds == [True] * 3
    # Finite results are the results of operands with zeros for NaNs and infinities.
    clean = dot(np.where(np.isfinite(lhs), lhs, 0), np.where(np.isfinite(rhs), rhs, 0))
    assert_same_bits(want[4:, :4], clean[4:, :4])
    assert np.isfinite(want[4:, :4]).all()


def test_the_order_and_the_company_of_terms_change_no_bit():
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
    }
    want = dot(lhs, rhs)
    for name, (a, b) in cases.items():
        rows = slice(3, 5) if name == "rows of a batch" else slice(8)
        assert_same_bits(dot(a, b)[:8], want[rows], name)


def test_a_product_within_a_lowering_rule_without_64_bits():
    rng = np.random.default_rng(4)
    lhs, rhs = rough(rng, (5, 60)), rough(rng, (60, 7))
    primitive = Primitive("exact_dot")
    primitive.def_abstract_eval(
        lambda a, b: jax.core.ShapedArray((a.shape[0], b.shape[1]), a.dtype)
    )

    def rule(context, *args):
        def run(a, b):
            return dot_general.dot_general(a, b, dimension_numbers=MATRICES)

        with arithmetic.wide():
            return jax.interpreters.mlir.lower_fun(run, multiple_results=False)(context, *args)

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
        run = functools.partial(dot_general.dot_general, dimension_numbers=MATRICES)
        mapped = np.asarray(jax.jit(jax.vmap(run, (0, None)))(lhs, rhs))
    assert_same_bits(mapped, np.stack([dot(each, rhs) for each in lhs]))


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


def test_the_level_of_a_product():
    singles, halves = [np.float32] * 3, [BFLOAT16] * 3
    coarse, fine = grids.Level(23, 30, 17, 30), grids.Level(29, 30, 27, 38)
    assert {grids.level_of(n, singles, None) for n in (2, 8193, 1 << 22)} == {coarse}
    assert grids.level_of(1 << 24, singles, None).least == 15
    assert {grids.level_of(n, halves, None).row for n in (2, 1 << 24)} == {14}
    assert grids.level_of(32, [BFLOAT16, BFLOAT16, np.float32], None) == coarse
    assert grids.level_of(1 << 20, halves, ("highest", "default")) == fine
    assert grids.level_of(1 << 22, singles, (HIGHEST, HIGHEST)).least == 25
