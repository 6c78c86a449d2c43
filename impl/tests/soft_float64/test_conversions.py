"""Conversions and roundings to whole numbers by integers have the bits of float64.

Tests: impl._soft_float64.conversions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._soft_float64 import conversions
from impl.tests.soft_float64.numbers import SPECIAL, drawn, numbers, same, words

FLOATS = [np.float32, np.float16, jnp.bfloat16]
INTEGERS = [np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
WHOLE = {"round_to_even": np.rint, "floor": np.floor, "ceil": np.ceil}


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True), np.errstate(all="ignore"):
        yield


def alike(got, expected):
    """Returns where numbers have the same bits; every NaN is one."""
    got, expected = np.asarray(got), np.asarray(expected)
    are_equal = (got == expected) & (np.signbit(got) == np.signbit(expected))
    return are_equal | (np.isnan(got) & np.isnan(expected))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(rng, name):
    function = jax.jit(getattr(conversions, name))
    ties = np.arange(-50, 50) / 2
    for values in [SPECIAL, ties, ties * (1 + 2.0**-50), *drawn(rng)]:
        assert np.all(same(function(words(values)), WHOLE[name](values)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_word_is_rounded_once_to_a_float(rng, dtype):
    function = jax.jit(lambda word: conversions.from_word(word, dtype))
    expected = jax.jit(lambda value: arithmetic.narrow(value, dtype))
    exponents = np.ldexp(rng.standard_normal(4096), rng.integers(-155, 135, 4096))
    for values in [SPECIAL, exponents, *drawn(rng)]:
        assert np.all(alike(function(words(values)), expected(jnp.asarray(values))))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_becomes_the_word_of_its_value(dtype):
    bits = np.arange(1 << 16, dtype=np.uint32)
    bits = jnp.asarray(bits << 16 | bits) if dtype is np.float32 else jnp.asarray(bits, np.uint16)
    values = lax.bitcast_convert_type(bits, dtype)
    expected = np.asarray(jax.jit(lambda x: lax.convert_element_type(x, np.float64))(values))
    assert np.all(same(jax.jit(conversions.to_word)(values), expected))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(rng, dtype):
    values = rng.integers(0, 2**64, 4096, dtype=np.uint64) >> rng.integers(0, 64, 4096, np.uint64)
    whole = values.astype(dtype)
    assert np.all(same(jax.jit(conversions.to_word)(jnp.asarray(whole)), whole.astype(np.float64)))
    back = jax.jit(lambda word: conversions.from_word(word, dtype))
    small = np.trunc(rng.standard_normal(4096) * 40).clip(max(-128, np.iinfo(dtype).min), 127)
    fractions = small + np.where(small == 0, 0.25, np.copysign(0.25, small))
    assert np.array_equal(back(words(fractions)), small.astype(dtype))
    ends = np.iinfo(dtype)
    assert back(words([np.inf, -np.inf, np.nan, 2.0**70])).tolist() == [
        ends.max,
        ends.min,
        0,
        ends.max,
    ]


def test_bools():
    got = conversions.from_word(words([0.0, -0.0, 1e-300, np.nan, np.inf]), np.bool_)
    assert got.tolist() == [False, False, True, True, True]
    assert numbers(conversions.to_word(jnp.array([False, True]))).tolist() == [0, 1]
