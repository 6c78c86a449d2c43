"""Elements in doubt, computed again: which ones are asked for, and where they are stored."""

import numpy as np
import pytest

from impl._exact.nearest import interval, repair
from impl.tests.exact._sums import DTYPES, assert_same, rough, run


def check(values, is_doubt, terms=1):
    """Repairs the elements in doubt, and compares the result with the values."""
    words = np.array(values).view(interval.word_type(values.dtype))
    words[is_doubt] = interval.IN_DOUBT
    # An element that is not in doubt must not be computed.
    table = np.where(is_doubt, values, np.array(77, values.dtype)).reshape(-1)

    def program(words, table):
        return repair.repaired(words, values.dtype, terms, lambda at: table[at])

    assert_same(run(program, words, table), values)


@pytest.mark.parametrize("share", [0, 0.05, 0.5, 1])
@pytest.mark.parametrize("shape", [(), (1,), (16,), (17,), (5, 7, 3), (1500,)])
def test_elements_in_doubt_get_their_exact_values(rng, shape, share):
    # A trip computes at most 64 elements, so 1500 of them take up to 24 trips.
    check(rough(rng, shape), rng.random(shape) < share)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(rng, dtype):
    check(rough(rng, (50,), dtype, spread=5), rng.random(50) < 0.3)


@pytest.mark.parametrize("position", [0, 15, 16, 31, 32, 36])
def test_a_single_element_in_doubt(rng, position):
    check(rough(rng, (37,)), np.arange(37) == position)


def test_a_trip_of_one_element_of_many_terms(rng):
    check(rough(rng, (70,)), rng.random(70) < 0.2, terms=1 << 18)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_exact_value_may_be_special(dtype):
    values = np.array([np.nan, np.inf, -np.inf, 0, 1], DTYPES[dtype])
    check(values, np.array([True, True, True, True, False]))
