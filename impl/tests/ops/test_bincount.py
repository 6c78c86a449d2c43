"""bincount: values, dtypes, lengths, bits, and numbers out of range."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import at
from impl.tests.ops._scatters import IN_RANGE, INDEX, SIZE, contributions
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from spec import oracles

complete = pytest.mark.usefixtures("complete")
NO_NUMBERS = np.zeros(0, np.int64)


def test_numbers_of_8_bits_count_into_more_bins_than_8_bits_can():
    numbers = np.array([255, 44, 255, 0], np.uint8)
    got = jax.jit(lambda n: impl.bincount(n, length=300))(numbers)
    assert_same_bits(got, np.bincount(numbers, minlength=300).astype(np.int32))


@complete
def test_length():
    assert impl.bincount(np.array([1, 4, 1])).tolist() == [0, 2, 0, 0, 1]
    assert impl.bincount(np.array([1, 4, 1]), minlength=2).shape == (5,)
    assert impl.bincount(np.array([1, 4, 1]), minlength=7).shape == (7,)
    assert impl.bincount(np.array([1, 4, 1]), length=3).tolist() == [0, 2, 0]
    counts = jax.jit(lambda x: impl.bincount(x, length=6))(np.array([1, 4]))
    assert counts.tolist() == [0, 1, 0, 0, 1, 0]


@complete
def test_empty_arrays():
    assert impl.bincount(NO_NUMBERS).shape == (0,)
    assert impl.bincount(NO_NUMBERS, np.ones(0, np.float32), 2).tolist() == [0, 0]
    assert impl.bincount(np.array([1, 3]), length=0).shape == (0,)


@pytest.mark.usefixtures("portable")
def test_bits():
    _, index, source = contributions(5, 3072, 3)
    zeros = np.array([0, 0, 2]), np.full(3, -0.0, np.float32)
    results = run_together(
        {
            "sums": (lambda i, w: impl.bincount(i, w, length=6), index, source[:, 0]),
            "zeros": (lambda i, w: impl.bincount(i, w, length=3), *zeros),
        }
    )
    want = oracles.source(np.zeros(6, np.float32), index, source[:, 0])
    assert_same_bits(results["sums"], want)
    # 0 + -0 is 0: a compiler that knows the initial 0 must not leave the sum at -0.
    assert_same_bits(results["zeros"], np.zeros(3, np.float32))


def test_under_jit_the_length_is_needed():
    with pytest.raises(TypeError, match="pass length="):
        jax.jit(impl.bincount)(at(1, 2))


def test_a_number_beyond_32_bits_is_not_taken_for_another():
    # Without x64 JAX would narrow it to 1.
    assert impl.bincount(np.array([2**32 + 1, 2]), length=4).tolist() == [0, 0, 1, 0]


@pytest.mark.usefixtures("path")
def test_numbers_out_of_range_are_dropped():
    weights = np.arange(1, 20, 2, dtype=np.float32)
    want = np.zeros(SIZE, np.float32)
    np.add.at(want, INDEX[IN_RANGE], weights[IN_RANGE])
    got = jax.jit(lambda i, w: impl.bincount(i, w, length=SIZE))(INDEX, weights)
    assert_same_bits(got, want)
