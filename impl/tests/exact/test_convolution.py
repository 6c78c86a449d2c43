"""Exact convolutions, against integers of any size.

Tests: impl._exact.products.convolution_by_dots.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.products import convolution, convolution_by_dots
from impl.tests.exact._products import convolve, expected_convolution, rough
from impl.tests.support.bits import assert_same_bits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
IMAGES = ("NCHW", "OIHW", "NCHW")
CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")
#: Strides, padding, dilation of the image and of the kernel.
PLAIN = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
ODD = ((2, 1), ((2, 0), (-1, 3)), (1, 2), (2, 1))


def options(window, groups=(1, 1)):
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    return {
        **dict(zip(names, window, strict=True)),
        "feature_group_count": groups[0],
        "batch_group_count": groups[1],
    }


def expected(lhs, rhs, numbers, dtype, window, groups=(1, 1), **others):
    names = ("stride", "padding", "lhs_dilation", "rhs_dilation")
    window = dict(zip(names, window, strict=True))
    return expected_convolution(lhs, rhs, numbers, dtype, groups=groups, **window, **others)


@pytest.mark.parametrize(
    ("left", "right", "numbers", "window", "groups", "dtype", "highest"),
    [
        ((2, 3, 6, 5), (4, 3, 3, 3), IMAGES, PLAIN, (1, 1), np.float32, False),
        ((2, 6, 5, 4), (3, 2, 2, 4), CHANNELS_LAST, ODD, (2, 1), np.float32, False),
        ((4, 6, 5, 2), (3, 2, 2, 4), CHANNELS_LAST, ODD, (1, 2), np.float32, True),
        ((3, 6, 4, 2), (4, 2, 3, 6), ("CWNH", "IWOH", "HCNW"), ODD, (1, 1), BFLOAT16, False),
        ((2, 3, 6, 5), (6, 1, 3, 1), IMAGES, ODD, (3, 1), np.float16, False),
        ((2, 3, 4, 5), (3, 1, 1, 1), IMAGES, PLAIN, (3, 1), np.float32, False),
    ],
)
def test_the_bits_are_those_of_the_oracle(left, right, numbers, window, groups, dtype, highest):
    rng = np.random.default_rng(0)
    if numbers[0] == "CWNH":
        left, right = (2, 6, 3, 4), (2, 3, 4, 2)
    binades = 6 if dtype == np.float16 else 24
    lhs, rhs = rough(rng, left, dtype, binades), rough(rng, right, dtype, binades)
    precision = (lax.Precision.HIGHEST,) * 2 if highest else None
    got = convolve(lhs, rhs, numbers, precision=precision, **options(window, groups))
    want = expected(lhs, rhs, numbers, dtype, window, groups, highest=highest)
    assert_same_bits(got, want)
    plain = lax.conv_general_dilated(
        *(jnp.asarray(x, np.float32) for x in (lhs, rhs)),
        dimension_numbers=numbers,
        **options(window, groups),
    )
    assert plain.shape == got.shape
    np.testing.assert_allclose(np.float32(got), plain, rtol=0.05, atol=np.abs(plain).max() * 0.01)


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
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)
    run = jax.jit(
        lambda lhs, rhs: convolution_by_dots.convolve(
            lhs, rhs, convolution_by_dots.Window(*window), numbers, groups, np.float32
        )
    )
    plain = jax.jit(
        lambda lhs, rhs: lax.conv_general_dilated(
            lhs, rhs, dimension_numbers=numbers, **options(window, groups)
        )
    )
    assert_same_bits(run(lhs, rhs), plain(lhs, rhs))


def test_every_engine_gives_the_same_bits():
    rng = np.random.default_rng(1)
    lhs, rhs = rough(rng, (1, 3, 4, 4), BFLOAT16), rough(rng, (2, 3, 3, 3), BFLOAT16)
    want = expected(lhs, rhs, IMAGES, BFLOAT16, PLAIN)
    for name in ("int8", "bfloat16"):
        assert_same_bits(convolve(lhs, rhs, IMAGES, engine=name, **options(PLAIN)), want)


@pytest.mark.parametrize("highest", [False, True])
def test_sums_of_more_terms_than_float64_holds_in_one_limb(highest):
    rng = np.random.default_rng(2)
    numbers = ("NCW", "OIW", "NCW")
    lhs, rhs = rough(rng, (1, 4, 2500)), rough(rng, (2, 4, 2499))
    window = ((1,), ((0, 0),), (1,), (1,))
    precision = lax.Precision.HIGHEST if highest else None
    got = convolve(lhs, rhs, numbers, precision=precision, **options(window))
    assert_same_bits(got, expected(lhs, rhs, numbers, np.float32, window, highest=highest))


def test_nans_and_infinities():
    rng = np.random.default_rng(3)
    lhs, rhs = np.abs(rough(rng, (4, 2, 5, 5))), np.abs(rough(rng, (3, 2, 3, 3)))
    lhs[0, 0, 0, 0], lhs[1, 0, 2, 2], lhs[1, 1, 2, 3], lhs[2, 0, 0, 4] = np.nan, np.inf, -1, -np.inf
    rhs[1, 0, 1, 1], rhs[2, 0, 0, 0] = 0, np.inf
    for precision, by_products in (("highest", True), ("highest", False), (None, False)):
        chosen = {"precision": precision, "by_products": by_products}
        got = convolve(lhs, rhs, IMAGES, **chosen, **options(PLAIN))
        want = expected(lhs, rhs, IMAGES, np.float32, PLAIN, highest=precision is not None)
        assert_same_bits(np.where(np.isnan(got), 7, got), np.where(np.isnan(want), 7, want))
    kinds = [np.isnan(want), want == np.inf, want == -np.inf, np.isfinite(want)]
    assert [kind.any() for kind in kinds] == [True] * 4
    assert np.isnan(want[:, 2]).all()


def test_zero_images_and_channels_change_no_bit():
    rng = np.random.default_rng(4)
    lhs, rhs = rough(rng, (2, 3, 6, 5)), rough(rng, (4, 3, 3, 3))
    want = convolve(lhs, rhs, IMAGES, **options(PLAIN))
    longer = np.full((2, 2, 6, 5), 1e30, np.float32), np.full((4, 2, 3, 3), 1e30, np.float32)
    longer[0][:, 0], longer[1][:, 1] = 0, 0
    with_zeros = (np.concatenate(pair, 1) for pair in zip((lhs, rhs), longer, strict=True))
    more_images = np.concatenate([lhs[:1] * 1e6, lhs])
    assert_same_bits(convolve(more_images, rhs, IMAGES, **options(PLAIN))[1:], want)
    assert_same_bits(convolve(*with_zeros, IMAGES, **options(PLAIN)), want)


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


@pytest.mark.parametrize("precision", [None, "highest"])
def test_a_sum_that_is_too_long_is_refused(precision):
    image = jax.ShapeDtypeStruct((1, 1, (1 << 22) + 1), np.float32)
    numbers = lax.conv_dimension_numbers(image.shape, image.shape, ("NCW", "OIW", "NCW"))
    window = options(((1,), ((0, 0),), (1,), (1,)))

    def run(lhs, rhs):
        return convolution.conv_general_dilated(
            lhs, rhs, dimension_numbers=numbers, precision=precision, **window
        )

    with arithmetic.wide(), pytest.raises(NotImplementedError, match="4,194,304 terms"):
        jax.eval_shape(run, image, image)
