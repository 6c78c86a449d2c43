"""repeat_interleave: positions, and sizes that are not the sum."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import NO_INDEX, V, at
from impl.tests.support.bits import assert_same_bits

complete = pytest.mark.usefixtures("complete")


@complete
def test_positions():
    repeats = np.array([1, 0, 2], np.int32)
    assert impl.repeat_interleave(repeats).tolist() == [0, 2, 2]
    assert impl.repeat_interleave(repeats, output_size=3).dtype == np.int32
    assert impl.repeat_interleave(NO_INDEX).shape == (0,)
    # Too short, and too long: past the last position.
    for size, want in [(2, [0, 2]), (5, [0, 2, 2, 3, 3])]:
        got = jax.jit(lambda r, size=size: impl.repeat_interleave(r, output_size=size))(repeats)
        assert got.tolist() == want


def test_x64():
    x, repeats = np.random.default_rng(0).standard_normal((3, 2)), np.array([7, 0, 7])
    with jax.enable_x64(True):
        got = jax.jit(lambda x, r: impl.repeat_interleave(x, r, 0, output_size=14))(x, repeats)
        assert_same_bits(got, np.repeat(x, repeats, 0))
        assert impl.repeat_interleave(repeats).dtype == np.int64


def test_known_numbers_are_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="sum of repeats"):
        jax.jit(lambda x: impl.repeat_interleave(x, 2, output_size=5))(V)


def test_under_jit_the_size_is_needed():
    with pytest.raises(TypeError, match="pass output_size="):
        jax.jit(impl.repeat_interleave)(V, at(1, 2, 1))


@complete
def test_repetitions_beyond_the_sum_read_the_fill_value():
    repeats, x = np.array([1, 0, 2]), np.array([1, 2, 3], np.float32)

    @jax.jit
    def calls(x, r):
        repeat = lambda x, r, n: impl.repeat_interleave(x, r, output_size=n)  # noqa: E731
        longer = jax.grad(lambda x: jnp.nansum(repeat(x, r, 5)))(x)
        # A negative number counts as none.
        negative = repeat(x, r - np.array([0, 4, 0]), 3)
        return repeat(x, r, 2), repeat(x, r, 5), longer, negative

    short, long, gradient, negative = calls(x, repeats)
    assert short.tolist() == [1, 3]
    np.testing.assert_array_equal(long, [1, 3, 3, np.nan, np.nan])
    assert gradient.tolist() == [1, 0, 2]
    assert negative.tolist() == [1, 3, 3]


def test_unknown_repeats_may_add_up_to_more_than_an_int32_holds():
    x, repeats = np.arange(40_000, dtype=np.int32), np.full(40_000, 120_000, np.int32)
    repeats[0] = 2
    repeat = jax.jit(functools.partial(impl.repeat_interleave, output_size=120_000))
    assert_same_bits(repeat(x, repeats), np.repeat(x[:2], [2, 119_998]))
