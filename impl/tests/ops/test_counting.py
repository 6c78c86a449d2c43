"""histc and bincount: dtypes, lengths, invalid ranges, and numbers out of range."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import INDEX, INSIDE, SIZE
from impl.tests.support.bits import assert_same_bits

pytestmark = pytest.mark.usefixtures("complete")

nan, inf = np.nan, np.inf


def floats(*values, dtype=np.float32):
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_narrow_floats(dtype):
    # An end of the range is converted as x is, and so x is in the range.
    got = impl.histc(floats(0.1, dtype=dtype), 2, 0.1, 0.2)
    assert_same_bits(got, floats(1, 0, dtype=dtype))
    # Adding ones in the dtype of the result would end at 256 for bfloat16.
    assert_same_bits(impl.histc(np.zeros(3000, dtype), 1, 0, 1), floats(3000, dtype=dtype))


def histogram_of_integers(x, bins, low, high):
    """Counts integers, by the arithmetic of Python."""
    if low == high:
        low, high = int(x.min()), int(x.max())
    distances = [int(v) - low for v in x if low <= v <= high]
    positions = [min(v * bins // (high - low), bins - 1) for v in distances]
    return np.bincount(positions, minlength=bins).astype(x.dtype)


#: histc, compiled once for each shape and number of bins.
compiled = functools.partial(jax.jit, static_argnums=1)(impl.histc)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.uint64])
def test_integers(dtype, rng):
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, 200, dtype, endpoint=True)
    x[:2] = limits.min, limits.max
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        for bins, ends in itertools.product(
            [3, 100003], [(0, 0), (3, 100), (int(limits.min) // 2, int(limits.max) // 3)]
        ):
            got = compiled(x, bins, *(np.array(end).astype(dtype) for end in ends))
            assert_same_bits(got, histogram_of_integers(x, bins, *ends))
        # The range of equal ends begins at the least number less 1, which the dtype does not hold.
        # A count wraps around as other sums do.
        zero = np.zeros((), dtype)
        counts = compiled(np.full(200, limits.min, dtype), 3, zero, zero).tolist()
        assert counts == ([0, 200 - 256, 0] if dtype is np.int8 else [200, 0, 0])


def test_the_range_of_integers():
    few = np.arange(5)
    # A fraction is cut off, as in PyTorch on CUDA, which counts integers.
    assert impl.histc(few, 3, 0.5, 2.5).tolist() == [1, 1, 1]
    assert impl.histc(few, 3).tolist() == [2, 1, 2]


def test_an_invalid_range_counts_nothing_under_jit():
    count = jax.jit(lambda x, low, high: impl.histc(x, 3, low, high))
    assert count(floats(0, 1), 0.0, 0.0).tolist() == [1, 0, 1]
    for x, *ends in [
        (floats(0, 1), 1.0, 0.0),
        (floats(0, 1), nan, 1.0),
        (floats(0, 1), 0.0, inf),
        (floats(0, nan), 0.0, 0.0),
        (floats(0, inf), 0.0, 0.0),
    ]:
        assert count(x, *ends).tolist() == [0, 0, 0]


def test_a_known_range_is_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="max must be larger"):
        jax.jit(lambda x: impl.histc(x, 4, 2, 1))(floats(1))


# bincount.


def test_numbers_of_8_bits_count_into_more_bins_than_8_bits_can():
    numbers = np.array([255, 44, 255, 0], np.uint8)
    got = jax.jit(lambda n: impl.bincount(n, length=300))(numbers)
    assert_same_bits(got, np.bincount(numbers, minlength=300).astype(np.int32))


def test_length():
    assert impl.bincount(np.array([1, 4, 1])).tolist() == [0, 2, 0, 0, 1]
    assert impl.bincount(np.array([1, 4, 1]), minlength=2).shape == (5,)
    assert impl.bincount(np.array([1, 4, 1]), minlength=7).shape == (7,)
    assert impl.bincount(np.array([1, 4, 1]), length=3).tolist() == [0, 2, 0]
    counts = jax.jit(lambda x: impl.bincount(x, length=6))(np.array([1, 4]))
    assert counts.tolist() == [0, 1, 0, 0, 1, 0]


def test_under_jit_the_length_is_needed():
    with pytest.raises(TypeError, match="pass length="):
        jax.jit(impl.bincount)(np.array([1, 2]))


def test_a_number_beyond_32_bits_is_not_taken_for_another():
    # Without x64 JAX would narrow it to 1.
    assert impl.bincount(np.array([2**32 + 1, 2]), length=4).tolist() == [0, 0, 1, 0]


@pytest.mark.usefixtures("path")
def test_numbers_out_of_range_are_dropped():
    weights = np.arange(1, 25, 2, dtype=np.float32)
    want = np.zeros(SIZE, np.float32)
    np.add.at(want, INDEX[INSIDE], weights[INSIDE])
    got = jax.jit(lambda i, w: impl.bincount(i, w, length=SIZE))(INDEX, weights)
    assert_same_bits(got, want)
