"""Products and convolutions of the native engine, against the oracle and the engine of HLO.

Tests: impl._native.products and the C++ behind it.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl._native import library, products
from impl.tests.exact._products import (
    CHANNELS_LAST,
    CONVOLUTIONS,
    IMAGES,
    MATRICES,
    PLAIN,
    expected_convolution,
    expected_dot,
    hard_factors,
    options,
    rough,
)
from impl.tests.exact._sums import assert_bounds_and_digits, assert_same
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits

pytestmark = pytest.mark.skipif(not library.is_available(), reason="the library was not built")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float32), BFLOAT16, np.dtype(np.float16)]
DOUBLE = np.dtype(np.float64)
#: Strides, padding, dilation of the image and of the kernel.
DILATED = ((3, 2), ((4, 1), (2, 5)), (2, 3), (1, 2))
WIDE = ((1, 2), ((-1, 0), (3, 3)), (4, 2), (3, 4))


def dot(lhs, rhs, numbers=MATRICES, dtype=None, module=products):
    """Returns a product of the engine, or of another module."""
    options = {"dimension_numbers": numbers, "preferred_element_type": dtype}
    with arithmetic.wide():
        return np.asarray(jax.jit(functools.partial(module.dot_general, **options))(lhs, rhs))


def convolutions(calls, module=products):
    """Returns convolutions of the engine, or of another module, all in one program.

    Args:
        calls: For each its operands, dimension numbers, the dtype of the result, window and groups.
        module: The module.
    """

    def program(pairs):
        results = []
        for pair, (lhs, rhs, numbers, dtype, *window) in zip(pairs, calls, strict=True):
            numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)  # noqa: PLW2901
            given = {"dimension_numbers": numbers, "preferred_element_type": dtype}
            results.append(module.conv_general_dilated(*pair, **given, **options(*window)))
        return results

    with arithmetic.wide():
        return [np.asarray(each) for each in jax.jit(program)([call[:2] for call in calls])]


def assert_dots(calls):
    """Compares products with the oracle, all in one program.

    Args:
        calls: For each product its factors, its dimension numbers and the dtype of its result.
    """
    functions = [
        functools.partial(products.dot_general, dimension_numbers=n, preferred_element_type=dtype)
        for *_, n, dtype in calls
    ]
    factors = [(lhs, rhs) for lhs, rhs, *_ in calls]
    program = jax.jit(lambda pairs: [f(*pair) for f, pair in zip(functions, pairs, strict=True)])
    with arithmetic.wide():
        got = [np.asarray(each) for each in program(factors)]
    for result, call in zip(got, calls, strict=True):
        assert_same(result, expected_dot(*call), f"{call[0].shape} {call[0].dtype} {call[2:]}")


def test_factors_of_any_two_dtypes():
    rng, calls = np.random.default_rng(0), []
    for left, right, result in itertools.product(DTYPES, repeat=3):
        for binades in (12, 60):
            with np.errstate(over="ignore"):
                lhs, rhs = rough(rng, (9, 21), left, binades), rough(rng, (21, 18), right, binades)
            calls += [(lhs, rhs, MATRICES, result), (lhs[:1], rhs, MATRICES, result)]
        if result == left:
            calls += [(lhs, rhs, MATRICES, DOUBLE), (lhs.astype(DOUBLE), rhs, MATRICES, DOUBLE)]
    assert_dots(calls)


def in_each_layout(lhs, rhs, result):
    """Returns the calls of a product whose factors lie in memory in each way."""
    return [
        (lhs if i else lhs.T.copy(), rhs.T.copy() if j else rhs, (((i,), (j,)), ((), ())), result)
        for i, j in itertools.product((0, 1), repeat=2)
    ]


#: Shapes and dimension numbers.
NUMBERS = [
    ((2, 3, 4, 5), (4, 2, 6, 5), (((3,), (3,)), ((0, 2), (1, 0)))),
    ((5, 4, 3), (3, 2, 5, 4), (((1, 0), (3, 2)), ((), ()))),
    ((3, 5, 2, 7), (7, 3, 5, 4), (((3, 1), (0, 2)), ((0,), (1,)))),
    ((40, 3), (40, 3), (((1,), (1,)), ((0,), (0,)))),
    ((3, 40), (3, 40), (((0,), (0,)), ((1,), (1,)))),
    ((30, 2, 3), (30, 3, 2), (((2,), (1,)), ((0,), (0,)))),
    ((4,), (4,), (((0,), (0,)), ((), ()))),
    ((), (3, 2), (((), ()), ((), ()))),
    ((37, 16), (37, 16), (((1,), (1,)), ((0,), (0,)))),
    ((5, 11, 3, 2), (5, 11, 2), (((3,), (2,)), ((0, 1), (0, 1)))),
]


#: Rows, terms and columns.
TILES = [
    *((1, 1, 1), (1, 7, 1), (3, 0, 4), (0, 3, 4), (3, 4, 0), (2, 1, 3), (15, 1, 17)),
    *((13, 9, 1), (1, 9, 13), (8, 40, 9), (9, 40, 8), (29, 3, 33), (31, 130, 5)),
]


@pytest.mark.parametrize("dtype", [*DTYPES, DOUBLE], ids=str)
def test_dimensions_and_sizes_that_fit_no_tile(dtype):
    rng, calls = np.random.default_rng(1), []
    for rows, terms, columns in TILES:
        lhs, rhs = rough(rng, (rows, terms), dtype, 6), rough(rng, (terms, columns), dtype, 6)
        calls += in_each_layout(lhs, rhs, dtype)
    for left, right, numbers in NUMBERS:
        calls.append((rough(rng, left, dtype, 5), rough(rng, right, dtype, 5), numbers, dtype))
    assert_dots(calls)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *((np.dtype(np.float32), each) for each in DTYPES),
        *((each, each) for each in (*DTYPES[1:], DOUBLE)),
    ],
    ids=str,
)
def test_sums_that_are_hard_to_round(dtype, result):
    # Few columns are computed in another way than many, and so are few terms of few results.
    calls, vectors = [], (((0,), (0,)), ((), ()))
    kind = DOUBLE if dtype == DOUBLE else np.float32
    for lhs, rhs in hard_factors(np.random.default_rng(3), result, kind).values():
        with np.errstate(over="ignore"):
            pair = lhs.astype(dtype), rhs.astype(dtype)
        if dtype == DOUBLE:
            calls += in_each_layout(pair[0][-3:], pair[1][:, :3], result)
            calls += [(row, pair[1][:, 0], vectors, result) for row in pair[0]]
        calls += in_each_layout(*pair, result)[: 4 if dtype == kind == result else 1]
        if rhs.shape[1] < 9:
            calls.append((pair[0], np.tile(pair[1], (1, 7)), MATRICES, result))
    assert_dots(calls)


@pytest.mark.parametrize("terms", [2, 130, 1000, 9000])
def test_sums_of_any_length(terms):
    # All factors are as long and as great as a float32 allows, so that float64 rounds every sum.
    lhs = np.full((2, terms), 1 - 2.0**-24, np.float32)
    lhs[1, 1:] = 2.0**-13 + 2.0**-30
    for columns in (1, 3):
        rhs = np.ones((terms, columns), np.float32) - 2.0**-24
        assert_same_bits(dot(lhs, rhs), expected_dot(lhs, rhs, MATRICES, np.float32))


@pytest.mark.parametrize(
    ("left", "right", "numbers"),
    [
        ((300, 700), (700, 520), MATRICES),
        ((700, 300), (700, 520), (((0,), (0,)), ((), ()))),
        ((300, 700), (520, 700), (((1,), (1,)), ((), ()))),
        ((5000, 40), (5000, 33), (((0,), (0,)), ((), ()))),
        ((3, 3000), (3000, 700), MATRICES),
        ((600, 2500), (2500, 2), MATRICES),
        ((6, 2500), (900, 2500), (((1,), (1,)), ((), ()))),
        ((300000,), (300000,), (((0,), (0,)), ((), ()))),
        ((4, 100, 64), (4, 90, 64), (((2,), (2,)), ((0,), (0,)))),
    ],
)
def test_large_products_have_the_bits_of_the_other_engine(left, right, numbers):
    rng = np.random.default_rng(7)
    # The other dtypes have one matrix that is long, and one that is wide.
    few = (np.float32, BFLOAT16, DOUBLE)
    for dtype in few if left in ((5000, 40), (3, 3000)) else (np.float32,):
        lhs, rhs = rough(rng, left, dtype, 4), rough(rng, right, dtype, 4)
        assert_same_bits(dot(lhs, rhs, numbers), dot(lhs, rhs, numbers, module=dot_general))


#: The same as for the engine of XLA, and more.
CASES = {
    **CONVOLUTIONS,
    "channels last": ((2, 6, 5, 9), (3, 2, 9, 17), CHANNELS_LAST, PLAIN, (1, 1)),
    "dilated": ((2, 5, 4, 3), (3, 2, 3, 5), CHANNELS_LAST, DILATED, (1, 1)),
    "dilated, channels first": ((2, 3, 7, 5), (5, 3, 4, 3), IMAGES, DILATED, (1, 1)),
    "cropped": ((2, 3, 9, 6), (4, 3, 3, 2), IMAGES, WIDE, (1, 1)),
    "three dimensions": (
        *((1, 4, 5, 3, 2), (2, 3, 2, 2, 3), ("NDHWC", "DHWIO", "NDHWC")),
        *(((1, 2, 1), ((1, 1), (0, 1), (1, 0)), (1, 1, 2), (2, 1, 1)), (1, 1)),
    ),
}


@pytest.mark.parametrize("dtype", [*DTYPES, DOUBLE], ids=str)
def test_convolutions(dtype):
    rng, calls = np.random.default_rng(8), {}
    for name, (left, right, numbers, *rest) in CASES.items():
        for binades in (3, 6) if dtype == np.float16 else (6, 40):
            pair = rough(rng, left, dtype, binades), rough(rng, right, dtype, binades)
            calls[f"{name}, {binades} binades"] = *pair, numbers, dtype, *rest
    results = convolutions([*calls.values()])
    for (name, call), got in zip(calls.items(), results, strict=True):
        assert_same_bits(got, expected_convolution(*call), name)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 0, 3, 3), (4, 0, 3, 3)),
        ((0, 3, 6, 5), (4, 3, 3, 3)),
        ((2, 3, 6, 5), (0, 3, 3, 3)),
        ((2, 3, 6, 0), (4, 3, 3, 3)),
        ((2, 3, 2, 5), (4, 3, 9, 3)),
    ],
)
def test_convolutions_without_terms_or_results(left, right):
    lhs, rhs = np.ones(left, np.float32), np.ones(right, np.float32)
    plain = functools.partial(lax.conv_general_dilated, **options(PLAIN), dimension_numbers=IMAGES)
    want = np.asarray(jax.jit(plain)(lhs, rhs))
    assert_same_bits(convolutions([(lhs, rhs, IMAGES, np.float32, PLAIN)])[0], want)


@pytest.mark.parametrize("window", [PLAIN, DILATED])
def test_a_kernel_that_is_not_finite(window):
    rng = np.random.default_rng(9)
    lhs, rhs = np.abs(rough(rng, (4, 2, 5, 5))), np.abs(rough(rng, (4, 2, 3, 3)))
    lhs[0, 0, 0, 0], lhs[1, 0, 2, 2], lhs[1, 1, 2, 3], lhs[2, 0, 0, 4] = np.nan, np.inf, -1, -np.inf
    # Dilated windows meet some taps at some positions only.
    rhs[1, 0, 1, 1], rhs[2, 0, 0, 0], rhs[3, 1, 2, 1] = 0, np.inf, np.nan
    calls = [(lhs, rhs, IMAGES, dtype, window) for dtype in (*DTYPES, DOUBLE)]
    for got, call in zip(convolutions(calls), calls, strict=True):
        assert_same(got, expected_convolution(*call))
        assert np.isnan(got[:, 2:].astype(np.float32)).all()


@pytest.mark.parametrize(
    ("left", "right", "numbers", "stride"),
    [
        ((3, 16, 15, 24), (3, 3, 24, 40), CHANNELS_LAST, 1),
        ((3, 24, 16, 15), (40, 24, 3, 3), IMAGES, 2),
        ((2, 30, 30, 3), (7, 7, 3, 20), CHANNELS_LAST, 2),
    ],
)
def test_gradients_have_the_bits_of_the_other_engine(left, right, numbers, stride):
    rng = np.random.default_rng(10)
    lhs, rhs = rough(rng, left, binades=3), rough(rng, right, binades=3)

    def plain(lhs, rhs):
        window = (stride, stride), "SAME"
        return lax.conv_general_dilated(lhs, rhs, *window, dimension_numbers=numbers).sum()

    step = jax.make_jaxpr(jax.grad(plain, (0, 1)))(lhs, rhs)
    found = [e for e in step.eqns if e.primitive is lax.conv_general_dilated_p]
    assert len(found) == 3
    names, calls = ("window_strides", "padding", "lhs_dilation", "rhs_dilation"), []
    for equation in found:
        params = equation.params
        pair = (rough(rng, value.aval.shape, binades=3) for value in equation.invars)
        window = [params[name] for name in names]
        calls.append((*pair, params["dimension_numbers"], np.float32, window))
    assert_all_same_bits(convolutions(calls), convolutions(calls, convolution))


@pytest.mark.parametrize("window", [PLAIN, DILATED])
def test_bounds_and_digits(window):
    rng = np.random.default_rng(11)
    lhs, rhs = rough(rng, (2, 3, 6, 5)), rough(rng, (4, 3, 3, 3))
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, IMAGES)
    operation = products.Convolution(
        tuple(map(tuple, (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec))),
        *window,
        (1, 1),
        np.dtype(np.float32),
    )
    want = expected_convolution(lhs, rhs, IMAGES, np.float64, window)
    assert_bounds_and_digits(operation, want, lhs, rhs)


@pytest.mark.parametrize("terms", [1, 5, 300])
def test_bounds_and_digits_of_products(terms):
    rng = np.random.default_rng(12)
    lhs, rhs = rough(rng, (2, 5, terms)), rough(rng, (terms, 2, 7), BFLOAT16)
    batches = (((2,), (0,)), ((0,), (1,)))
    operation = products.Product.of(3, 3, batches, np.dtype(np.float32))
    assert operation.operands == (("batch0", "line0", "term0"), ("term0", "batch0", "column0"))
    assert operation.result == ("batch0", "line0", "column0")
    assert_bounds_and_digits(operation, expected_dot(lhs, rhs, batches, np.float64), lhs, rhs)


def test_dtypes_that_the_engine_leaves_to_others():
    whole, half = np.arange(6, dtype=np.int8).reshape(2, 3), np.ones((3, 2), np.float16)
    assert products.dot_general(whole, half.astype(np.int8), dimension_numbers=MATRICES) is None
    half = jnp.asarray(half)
    with arithmetic.wide():
        # A sum of products of float64 that is rounded to another dtype.
        narrow = {"dimension_numbers": MATRICES, "preferred_element_type": np.float32}
        assert products.dot_general(half.T, jnp.ones((3, 2), DOUBLE), **narrow) is None
    for dtype in (np.int8, np.int32):
        got = dot(jnp.asarray(whole.astype(dtype)), half)
        assert_same_bits(got, dot(jnp.asarray(whole.astype(dtype)), half, module=dot_general))
