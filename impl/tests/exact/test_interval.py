"""The rounding test, for sums that it decides and sums that it leaves in doubt."""

import ml_dtypes
import numpy as np
import pytest

from impl._exact.nearest import interval
from impl.tests.exact._sums import DTYPES, assert_same, run

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
def test_a_bound_decides_unless_it_reaches_a_tie(dtype):
    half = 2.0 ** -(ml_dtypes.finfo(DTYPES[dtype]).nmant + 1)
    tie, odd_tie, above = 1 + half, 1 + 3 * half, 1 + 2 * half
    check(
        dtype,
        [
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
        ],
    )


@pytest.mark.parametrize("dtype", SHORT)
def test_a_bound_across_the_overflow(dtype):
    info = ml_dtypes.finfo(DTYPES[dtype])
    greatest = float(info.max)
    tie = greatest + 2.0 ** (info.maxexp - 2 - info.nmant)
    less = tie * 2.0**-40
    check(
        dtype,
        [
            (tie, 0, np.inf),
            (tie - less, 0, greatest),
            (tie - less, less / 4, greatest),
            (tie + less, less / 4, np.inf),
            (-tie - less, less / 4, -np.inf),
            (tie - less, 2 * less, DOUBT),
            (-tie + less, 2 * less, DOUBT),
            (1, np.inf, DOUBT),
        ],
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_infinities_and_nans_are_decided(dtype):
    check(
        dtype,
        [
            (-0.0, 0, 0.0),
            (0.0, 0, 0.0),
            (0.0, 1, DOUBT),
            (np.inf, 1, np.inf),
            (-np.inf, np.inf, -np.inf),
            (np.inf, np.nan, np.inf),
            (np.nan, 1, np.nan),
            (np.array(-1, np.int64).view(np.float64), np.nan, np.nan),
            (1.5, 0, 1.5),
        ],
    )


def test_an_interval_of_subnormal_float32_is_zero():
    tiny = 2.0**-126
    cases = [(-tiny / 4, tiny / 8, 0.0), (0.0, tiny / 4, 0.0), (tiny, tiny / 4, DOUBT)]
    check("float32", cases)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_float_has_the_word_of_a_doubt(dtype):
    dtype = DTYPES[dtype]
    word = interval.word_type(dtype)
    patterns = np.array([-1, -2, 0, np.iinfo(word).max, np.iinfo(word).min], word)
    words = run(interval.word_of, patterns.view(dtype))
    assert words.dtype == word
    assert interval.IN_DOUBT not in words
    assert_same(words.view(dtype), patterns.view(dtype))
