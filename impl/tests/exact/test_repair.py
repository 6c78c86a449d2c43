"""Elements in doubt, computed again: which ones are asked for, and where they are stored."""

import functools

import jax
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.nearest import interval, repair
from impl.tests.exact._sums import DTYPES, assert_same, rough


@functools.partial(jax.jit, static_argnums=(2, 3))
def _program(words, table, dtype, terms):
    return repair.repaired(words, dtype, terms, lambda at: table[at])


def check(values, is_doubt, terms=1):
    """Repairs the elements in doubt, and compares the result with the values."""
    words = np.array(values).view(interval.word_type(values.dtype))
    words[is_doubt] = interval.IN_DOUBT
    # An element that is not in doubt must not be computed.
    table = np.where(is_doubt, values, np.array(77, values.dtype)).reshape(-1)

    with arithmetic.wide():
        got = _program(words, table, values.dtype, terms)
    assert_same(got, values, f"in doubt: {np.sum(is_doubt)} of {np.size(is_doubt)}")


@pytest.mark.parametrize("shape", [(), (1,), (16,), (17,), (5, 7, 3), (1500,)])
def test_elements_in_doubt_get_their_exact_values(rng, shape):
    # A trip computes at most 64 elements, so 1500 of them take up to 24 trips.
    for share in (0, 0.05, 0.5, 1):
        check(rough(rng, shape), rng.random(shape) < share)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(rng, dtype):
    check(rough(rng, (50,), dtype, spread=5), rng.random(50) < 0.3)


def test_a_single_element_in_doubt(rng):
    for position in (0, 15, 16, 31, 32, 36):
        check(rough(rng, (37,)), np.arange(37) == position)


def test_a_trip_of_one_element_of_many_terms(rng):
    check(rough(rng, (70,)), rng.random(70) < 0.2, terms=1 << 18)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_exact_value_may_be_special(dtype):
    values = np.array([np.nan, np.inf, -np.inf, 0, 1], DTYPES[dtype])
    check(values, np.array([True, True, True, True, False]))
