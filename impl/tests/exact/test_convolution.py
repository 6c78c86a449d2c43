"""Convolutions, against the oracle in integers."""

import dataclasses
import functools

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl.tests.exact._products import (
    CONVOLUTIONS,
    IMAGES,
    PLAIN,
    expected_convolution,
    options,
    rough,
)
from impl.tests.exact._sums import DTYPES, assert_same
from impl.tests.support.bits import assert_same_bits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
WORDS = ("NCW", "OIW", "NCW")


def program(lhs, rhs, numbers, **chosen):
    """Returns a function that convolves, under jit."""
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)
    convolve = convolution.conv_general_dilated
    return jax.jit(functools.partial(convolve, dimension_numbers=numbers, **chosen))


def convolve(lhs, rhs, numbers, **chosen):
    with arithmetic.wide():
        return np.asarray(program(lhs, rhs, numbers, **chosen)(lhs, rhs))


def changed(monkeypatch, change):
    """Changes each approximation."""
    plain = dot_general._approximate
    monkeypatch.setattr(dot_general, "_approximate", lambda *a: change(plain(*a)))


@pytest.mark.parametrize(
    ("name", "dtype", "way"),
    [
        *((name, "float32", "whole") for name in CONVOLUTIONS),
        *((name, "float32", "in doubt") for name in ("a channel a group", "plain")),
        *((name, "float32", "in parts") for name in ("groups of images", "as a gradient")),
        *((name, "bfloat16", "whole") for name in ("groups of features", "as a gradient")),
        *((name, "float16", "whole") for name in ("groups of images", "plain")),
        *((name, "float64", "whole") for name in ("groups of features", "as a gradient")),
    ],
)
def test_the_bits_are_those_of_the_oracle(rng, monkeypatch, name, dtype, way):
    left, right, numbers, window, groups = CONVOLUTIONS[name]
    if way == "in doubt":
        changed(monkeypatch, lambda found: dataclasses.replace(found, roundings=2**50))
    if way == "in parts":
        monkeypatch.setattr(convolution, "_MOST", 1)
    chosen = {"precision": "highest" if name == "plain" else lax.Precision.HIGH}
    with arithmetic.wide():
        run = None
        for binades in (3, 6) if dtype == "float16" else (6, 24, 60):
            lhs, rhs = (rough(rng, shape, DTYPES[dtype], binades) for shape in (left, right))
            run = run or program(lhs, rhs, numbers, **chosen, **options(window, groups))
            want = expected_convolution(lhs, rhs, numbers, DTYPES[dtype], window, groups)
            assert_same_bits(run(lhs, rhs), want, f"{binades} binades")


def test_the_oracle_convolves_as_jax_does():
    rng = np.random.default_rng(0)
    for left, right, numbers, window, groups in CONVOLUTIONS.values():
        lhs, rhs = (np.float32(rng.integers(-9, 9, shape)) for shape in (left, right))
        plain = lax.conv_general_dilated(
            lhs, rhs, dimension_numbers=numbers, **options(window, groups)
        )
        assert_same_bits(plain, expected_convolution(lhs, rhs, numbers, np.float32, window, groups))


@pytest.mark.once
@pytest.mark.parametrize(("scales", "sign"), [((2.0**-30, 2.0**30), 1), ((1,), -1)])
@pytest.mark.parametrize(
    ("channels", "taps", "window"),
    [
        (37, 7, ((1,), ((0, 7),), (1,), (1,))),
        (37, 7, ((2,), ((3, 3),), (1,), (2,))),
        (7, 37, ((1,), ((0, 3),), (1,), (1,))),
    ],
    ids=["many positions", "strides", "few positions"],
)
def test_the_worst_library_changes_no_bit(channels, taps, window, scales, sign, monkeypatch):
    # All terms are 1, and 259 of them are halfway between 258 and 260 in bfloat16. The bound of
    # Cauchy and Schwarz is reached, and the library errs by nearly as much as it may. A second
    # image has terms for which float64 has no bits.
    def worst(found):
        total = found.total * (1 - sign * 0.99 * found.roundings * 2.0**-53)
        return dataclasses.replace(found, total=total)

    changed(monkeypatch, worst)
    chosen = {"preferred_element_type": BFLOAT16, **options(window)}
    run = None
    for scale in scales:
        images = np.full((2, channels, 38), scale, np.float32)
        images[1, :, ::2] *= 2.0**-60
        kernel = np.full((3, channels, taps), 1 / scale, np.float32)
        run = run or program(images, kernel, WORDS, **chosen)
        want = expected_convolution(images, kernel, WORDS, BFLOAT16, window)
        assert (want[0] == 260).any()
        with arithmetic.wide():
            assert_same_bits(run(images, kernel), want)


def test_nans_and_infinities():
    rng = np.random.default_rng(3)
    lhs, rhs = np.abs(rough(rng, (4, 2, 5, 5))), np.abs(rough(rng, (3, 2, 3, 3)))
    lhs[0, 0, 0, 0], lhs[1, 0, 2, 2], lhs[1, 1, 2, 3], lhs[2, 0, 0, 4] = np.nan, np.inf, -1, -np.inf
    rhs[1, 0, 1, 1], rhs[2, 0, 0, 0] = 0, np.inf
    want = expected_convolution(lhs, rhs, IMAGES, np.float32, PLAIN)
    assert_same(convolve(lhs, rhs, IMAGES, **options(PLAIN)), want)
    kinds = [np.isnan(want), want == np.inf, want == -np.inf, np.isfinite(want)]
    assert [kind.any() for kind in kinds] == [True] * 4
    assert np.isnan(want[:, 2]).all()


def test_a_nan_stays_in_its_own_group():
    lhs, rhs = np.ones((1, 3, 4), np.float32), np.ones((3, 1, 2), np.float32)
    lhs[0, 1, 2] = np.nan
    window = ((1,), ((0, 0),), (1,), (1,))
    got = convolve(lhs, rhs, WORDS, **options(window, (3, 1)))
    assert np.isnan(got).tolist() == [[[False] * 3, [False, True, True], [False] * 3]]


def test_sums_without_terms_and_dtypes_without_a_convolution():
    window = options(((1,), ((1, 1),), (1,), (1,)))
    images, kernel = np.ones((2, 0, 3), np.float32), np.ones((4, 0, 3), np.float32)
    empty = convolve(images, kernel, WORDS, **window)
    assert_same_bits(empty, np.zeros((2, 4, 3), np.float32))
    whole = np.arange(6, dtype=np.int8).reshape(1, 2, 3)
    got = convolve(whole, whole, WORDS, preferred_element_type=np.int32, **window)
    assert_same_bits(got, np.array([[[34, 55, 34]]], np.int32))
    with pytest.raises(TypeError, match="not to int32"):
        convolve(images, kernel, WORDS, preferred_element_type=np.int32, **window)
