"""Comparisons, extremes and signs by integers have the results of float64.

Tests: impl._soft_float64.ordering.
"""

import jax
import numpy as np
import pytest
from jax import lax

from impl._soft_float64 import ordering
from impl.tests.soft_float64.numbers import SPECIAL, numbers, pairs, same, words

COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_is_that_of_float64(rng, name):
    compare = jax.jit(ordering.compared(getattr(lax, name)))
    for a, b in pairs(rng):
        assert np.array_equal(compare(words(a), words(b)), COMPARISONS[name](a, b))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_take_a_nan(rng, name):
    function = jax.jit(getattr(ordering, name))
    for a, b in pairs(rng):
        expected = getattr(np, name)(a, b)
        # Of zeros of two signs, NumPy returns either.
        assert np.all(same(function(words(a), words(b)), expected) | (expected == 0))


def test_signs_and_clamps():
    got = numbers(ordering.sign(words(SPECIAL)))
    expected = np.where(SPECIAL == 0, SPECIAL, np.sign(SPECIAL))
    assert np.all(same(words(got), expected))
    low, high = np.full_like(SPECIAL, -2), np.full_like(SPECIAL, 1)
    got = ordering.clamp(words(low), words(SPECIAL), words(high))
    assert np.all(same(got, np.clip(SPECIAL, -2, 1)))
