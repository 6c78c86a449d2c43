"""Convolutions, against the oracle in integers.

Tests: impl._exact.products.convolution_by_dots.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.products import convolution, convolution_by_dots
from impl.tests.exact._products import (
    CHANNELS_LAST,
    CONVOLUTIONS,
    IMAGES,
    ODD,
    PLAIN,
    convolve,
    expected_convolution,
    options,
    rough,
)
from impl.tests.exact._sums import DTYPES, assert_same, run
from impl.tests.exact._terms import hard_matrix
from impl.tests.support.bits import assert_same_bits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.float16], ids=str)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_bits_are_those_of_the_oracle(name, dtype):
    left, right, numbers, window, groups = CONVOLUTIONS[name]
    rng = np.random.default_rng(0)
    for binades in (3, 6) if dtype == np.float16 else (6, 24, 60):
        lhs, rhs = rough(rng, left, dtype, binades), rough(rng, right, dtype, binades)
        got = convolve(lhs, rhs, numbers, **options(window, groups))
        want = expected_convolution(lhs, rhs, numbers, dtype, window, groups)
        assert_same_bits(got, want, f"{binades} binades")


def test_the_oracle_convolves_as_jax_does():
    rng = np.random.default_rng(0)
    for left, right, numbers, window, groups in CONVOLUTIONS.values():
        lhs, rhs = (np.float32(rng.integers(-9, 9, shape)) for shape in (left, right))
        plain = lax.conv_general_dilated(
            lhs, rhs, dimension_numbers=numbers, **options(window, groups)
        )
        assert_same_bits(plain, expected_convolution(lhs, rhs, numbers, np.float32, window, groups))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    # Each image has the terms of one sum in two channels.
    terms = hard_matrix(rng, 40, dtype)
    images = terms.T.reshape(-1, 2, 20)
    kernel = np.ones((4, 2, 20), np.float32)
    kernel[1:3] = 2.0 ** rng.integers(-4, 5, (2, 2, 20))
    kernel[3] = rng.standard_normal((2, 20)) * 2.0 ** rng.integers(-24, 25, (2, 20))
    kernel = kernel.astype(terms.dtype)
    numbers, window = ("NCW", "OIW", "NCW"), ((1,), ((3, 2),), (1,), (1,))
    of_shapes = lax.conv_dimension_numbers(images.shape, kernel.shape, numbers)
    one = functools.partial(
        convolution.conv_general_dilated, dimension_numbers=of_shapes, **options(window)
    )
    got = run(
        lambda *a: {to: one(*a, preferred_element_type=t) for to, t in DTYPES.items()},
        *(images, kernel),
    )
    for to, result in DTYPES.items():
        assert_same(
            got[to], expected_convolution(images, kernel, numbers, result, window), f"to {to}"
        )


@pytest.mark.once
@pytest.mark.parametrize("by_products", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_element_may_be_in_doubt(name, by_products, monkeypatch):
    plain = convolution._approximate

    def doubtful(*args, **options):
        return dataclasses.replace(plain(*args, **options), roundings=2**50)

    monkeypatch.setattr(convolution, "_approximate", doubtful)
    left, right, numbers, window, groups = CONVOLUTIONS[name]
    rng = np.random.default_rng(7)
    lhs, rhs = rough(rng, left), rough(rng, right)
    chosen = {"by_products": by_products, **options(window, groups)}
    numbers = lax.conv_dimension_numbers(left, right, numbers)
    with arithmetic.wide():
        function = functools.partial(
            convolution.conv_general_dilated, dimension_numbers=numbers, **chosen
        )
        got = jax.jit(function)(lhs, rhs)
    assert_same_bits(got, expected_convolution(lhs, rhs, numbers, np.float32, window, groups))


@pytest.mark.once
@pytest.mark.parametrize("by_products", [False, True])
@pytest.mark.parametrize(("scale", "sign"), [(2.0**-30, 1), (2.0**30, 1), (1, -1)])
@pytest.mark.parametrize(
    ("channels", "taps", "window"),
    [
        (37, 7, ((1,), ((0, 7),), (1,), (1,))),
        (37, 7, ((2,), ((3, 3),), (1,), (2,))),
        (7, 37, ((1,), ((0, 3),), (1,), (1,))),
    ],
    ids=["many positions", "strides", "few positions"],
)
def test_the_worst_library_changes_no_bit(
    channels, taps, window, scale, sign, by_products, monkeypatch
):
    # All terms are 1, and 259 of them are halfway between 258 and 260 in bfloat16. The bound of
    # Cauchy and Schwarz is reached, and the library errs by nearly as much as it may. A second
    # image has terms for which float64 has no bits.
    plain = convolution._approximate

    def worst(*args, **options):
        found = plain(*args, **options)
        total = found.total * (1 - sign * 0.99 * found.roundings * 2.0**-53)
        return dataclasses.replace(found, total=total)

    monkeypatch.setattr(convolution, "_approximate", worst)
    images = np.full((2, channels, 38), scale, np.float32)
    images[1, :, ::2] *= 2.0**-60
    kernel = np.full((3, channels, taps), 1 / scale, np.float32)
    numbers = lax.conv_dimension_numbers(images.shape, kernel.shape, ("NCW", "OIW", "NCW"))
    want = expected_convolution(images, kernel, numbers, BFLOAT16, window)
    assert (want[0] == 260).any()
    function = functools.partial(
        convolution.conv_general_dilated,
        dimension_numbers=numbers,
        preferred_element_type=BFLOAT16,
        by_products=by_products,
        **options(window),
    )
    with arithmetic.wide():
        assert_same_bits(jax.jit(function)(images, kernel), want)


def test_the_precision_changes_no_bit():
    rng = np.random.default_rng(6)
    lhs, rhs = rough(rng, (2, 3, 6, 5)), rough(rng, (4, 3, 3, 3))
    want = expected_convolution(lhs, rhs, IMAGES, np.float32, PLAIN)
    for precision in (None, (lax.Precision.HIGHEST,) * 2, (lax.Precision.DEFAULT,) * 2):
        got = convolve(lhs, rhs, IMAGES, precision=precision, **options(PLAIN))
        assert_same_bits(got, want, str(precision))


def test_convolutions_of_derivatives_have_the_bits_of_the_oracle():
    rng = np.random.default_rng(9)
    lhs, rhs = rough(rng, (2, 3, 7, 6)), rough(rng, (4, 3, 3, 2))
    window = dict(options(((2, 1), ((1, 1), (0, 1)), (1, 1), (1, 2))))

    def plain(lhs, rhs):
        return lax.conv_general_dilated(lhs, rhs, dimension_numbers=IMAGES, **window)

    step = jax.make_jaxpr(jax.grad(lambda lhs, rhs: plain(lhs, rhs).sum(), (0, 1)))(lhs, rhs)
    found = [e for e in step.eqns if e.primitive is lax.conv_general_dilated_p]
    assert len(found) == 3
    for equation in found:
        params = equation.params
        a, b = (rough(rng, value.aval.shape, binades=12) for value in equation.invars)
        kind = params["dimension_numbers"]
        moves = tuple(
            params[name] for name in ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
        )
        groups = (params["feature_group_count"], params["batch_group_count"])
        got = convolve(a, b, kind, **options(moves, groups))
        assert_same_bits(got, expected_convolution(a, b, kind, np.float32, moves, groups))


@pytest.mark.parametrize("unrolled", [32, 0])
@pytest.mark.parametrize(
    ("left", "right", "numbers", "window", "groups"),
    [
        ((4, 6, 5, 2), (3, 2, 2, 4), CHANNELS_LAST, ODD, (1, 2)),
        ((2, 6, 5, 4), (6, 5, 2, 2), (*IMAGES[:1], "HWIO", "HWNC"), ODD, (3, 1)),
        ((2, 3, 9), (4, 3, 7), ("NCW", "OIW", "NCW"), ((1,), ((0, -1),), (1,), (1,)), (1, 1)),
    ],
)
def test_products_of_matrices_convolve(left, right, numbers, window, groups, unrolled, monkeypatch):
    monkeypatch.setattr(convolution_by_dots, "_UNROLLED", unrolled)
    rng = np.random.default_rng(5)
    lhs, rhs = (np.float32(rng.integers(-9, 9, shape)) for shape in (left, right))
    if numbers[1] == "HWIO":
        rhs = np.float32(rng.integers(-9, 9, (3, 2, 2, 6)))
    got = convolve(lhs, rhs, numbers, by_products=True, **options(window, groups))
    plain = jax.jit(
        lambda lhs, rhs: lax.conv_general_dilated(
            lhs, rhs, dimension_numbers=numbers, **options(window, groups)
        )
    )
    assert_same_bits(got, plain(lhs, rhs) + np.float32(0))


@pytest.mark.parametrize("by_products", [False, True])
def test_long_sums_of_parts(by_products):
    rng = np.random.default_rng(2)
    numbers = ("NCW", "OIW", "NCW")
    lhs, rhs = rough(rng, (2, 4, 2500)), rough(rng, (3, 4, 2499))
    window = ((1,), ((1, 0),), (1,), (1,))
    got = convolve(lhs, rhs, numbers, by_products=by_products, **options(window))
    assert_same_bits(got, expected_convolution(lhs, rhs, numbers, np.float32, window))


def test_nans_and_infinities():
    rng = np.random.default_rng(3)
    lhs, rhs = np.abs(rough(rng, (4, 2, 5, 5))), np.abs(rough(rng, (3, 2, 3, 3)))
    lhs[0, 0, 0, 0], lhs[1, 0, 2, 2], lhs[1, 1, 2, 3], lhs[2, 0, 0, 4] = np.nan, np.inf, -1, -np.inf
    rhs[1, 0, 1, 1], rhs[2, 0, 0, 0] = 0, np.inf
    want = expected_convolution(lhs, rhs, IMAGES, np.float32, PLAIN)
    for by_products in (True, False):
        assert_same(convolve(lhs, rhs, IMAGES, by_products=by_products, **options(PLAIN)), want)
    kinds = [np.isnan(want), want == np.inf, want == -np.inf, np.isfinite(want)]
    assert [kind.any() for kind in kinds] == [True] * 4
    assert np.isnan(want[:, 2]).all()


def test_a_nan_stays_in_its_own_group():
    lhs, rhs = np.ones((1, 3, 4), np.float32), np.ones((3, 1, 2), np.float32)
    lhs[0, 1, 2] = np.nan
    numbers, window = ("NCW", "OIW", "NCW"), ((1,), ((0, 0),), (1,), (1,))
    got = convolve(lhs, rhs, numbers, **options(window, (3, 1)))
    assert np.isnan(got).tolist() == [[[False] * 3, [False, True, True], [False] * 3]]


def test_only_terms_that_are_not_zero_count():
    rng = np.random.default_rng(4)
    lhs, rhs = rough(rng, (2, 3, 6, 5)), rough(rng, (4, 3, 3, 3))
    want = convolve(lhs, rhs, IMAGES, **options(PLAIN))
    longer = np.full((2, 2, 6, 5), 1e30, np.float32), np.full((4, 2, 3, 3), 1e30, np.float32)
    longer[0][:, 0], longer[1][:, 1] = 0, 0
    with_zeros = (np.concatenate(pair, 1) for pair in zip((lhs, rhs), longer, strict=True))
    more_images = np.concatenate([lhs[:1] * 1e6, lhs])
    more_outputs = np.concatenate([rhs, rhs * np.float32(1e20)])
    assert_same_bits(convolve(more_images, rhs, IMAGES, **options(PLAIN))[1:], want)
    assert_same_bits(convolve(*with_zeros, IMAGES, **options(PLAIN)), want)
    assert_same_bits(convolve(lhs, more_outputs, IMAGES, **options(PLAIN))[:, :4], want)
    # The first four rows of the result do not read the last row of an image.
    lhs[:, :, 5] = 3e38
    assert_same_bits(convolve(lhs, rhs, IMAGES, **options(PLAIN))[:, :, :4], want[:, :, :4])


def test_sums_without_terms_and_dtypes_without_a_convolution():
    numbers = ("NCW", "OIW", "NCW")
    window = options(((1,), ((1, 1),), (1,), (1,)))
    empty = convolve(
        np.ones((2, 0, 3), np.float32), np.ones((4, 0, 3), np.float32), numbers, **window
    )
    assert_same_bits(empty, np.zeros((2, 4, 3), np.float32))
    whole = np.arange(6, dtype=np.int8).reshape(1, 2, 3)
    got = convolve(whole, whole, numbers, preferred_element_type=np.int32, **window)
    assert_same_bits(got, np.array([[[34, 55, 34]]], np.int32))
    numbers = lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), numbers)
    with arithmetic.wide(), pytest.raises(TypeError, match="not float64"):
        convolution.conv_general_dilated(
            jnp.ones((1, 2, 3), np.float64),
            jax.numpy.ones((1, 2, 3), np.float32),
            dimension_numbers=numbers,
            **window,
        )
