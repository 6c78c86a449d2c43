"""Arithmetic, conversions and comparisons by integers have the bits of NumPy's float64.

Tests: impl._soft_float64.arithmetic, impl._soft_float64.words.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._exact.arithmetic import narrow
from impl._soft_float64 import arithmetic
from impl.tests.soft_float64.numbers import SPECIAL, drawn, numbers, pairs, same, words

#: Operations of two numbers, and NumPy's.
OF_TWO = {
    **{
        name: (getattr(arithmetic, name), getattr(np, name))
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
    },
    **{
        name: (arithmetic.compared(getattr(lax, name)), getattr(np, of_numpy))
        for name, of_numpy in zip(
            ("eq", "ne", "lt", "le", "gt", "ge"),
            ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
            strict=True,
        )
    },
}
OF_ONE = {"root": np.sqrt, "round_to_even": np.rint, "floor": np.floor, "ceil": np.ceil}
#: The least normal number. A CPU without subnormal numbers decides after rounding to 53 bits, and
#: NumPy before, so results that round up to it are left out.
LEAST = 2.0**-1022


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True), np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", OF_TWO)
def test_an_operation_has_the_bits_of_float64(rng, name):
    function, expected = OF_TWO[name]
    function = jax.jit(function)
    for a, b in pairs(rng):
        got, by_numpy = function(words(a), words(b)), expected(a, b)
        if by_numpy.dtype == bool:
            assert np.array_equal(got, by_numpy)
        else:
            # Of zeros of two signs, NumPy's extreme is either.
            is_border = np.abs(by_numpy) == (0 if "imum" in name else LEAST)
            assert np.all(same(got, by_numpy) | is_border)


@pytest.mark.parametrize("name", OF_ONE)
def test_an_operation_of_one_number_has_the_bits_of_float64(rng, name):
    function, ties = jax.jit(getattr(arithmetic, name)), np.arange(-50, 50) / 2
    for a in [SPECIAL, ties, ties * (1 + 2.0**-50), np.arange(2000.0) ** 2, *drawn(rng)]:
        assert np.all(same(function(words(a)), OF_ONE[name](a)))


def test_a_result_that_rounds_up_to_the_least_normal_number_is_kept():
    # 53 bits hold (1 + 2**-52) (1 - 2**-52), rounded to 1; the exact product is below the border.
    a, b = 2.0**-1022 * (1 + 2.0**-52), 1 - 2.0**-52
    assert Fraction(a) * Fraction(b) < Fraction(LEAST)
    assert numbers(arithmetic.multiply(words([a]), words([b]))) == LEAST
    assert numbers(arithmetic.multiply(words([LEAST]), words([1 - 2.0**-53]))) == 0


def test_signs_of_zeros():
    zeros = np.array([0.0, 0.0, -0.0, -0.0, 1.0]), np.array([0.0, -0.0, 0.0, -0.0, -1.0])
    got = numbers(arithmetic.add(*map(words, zeros)))
    assert got.tolist() == [0] * 5
    assert np.signbit(got).tolist() == [False, False, False, True, False]


FLOATS = [np.float32, np.float16, jnp.bfloat16]
INTEGERS = [np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64]


def alike(got, expected):
    """Returns where numbers have the same bits; every NaN is one."""
    got, expected = np.asarray(got), np.asarray(expected)
    are_equal = (got == expected) & (np.signbit(got) == np.signbit(expected))
    return are_equal | (np.isnan(got) & np.isnan(expected))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_word_is_rounded_once_to_a_float(rng, dtype):
    function = jax.jit(lambda word: arithmetic.from_word(word, dtype))
    expected = jax.jit(lambda value: narrow(value, dtype))
    exponents = np.ldexp(rng.standard_normal(4096), rng.integers(-155, 135, 4096))
    for values in [SPECIAL, exponents, *drawn(rng)]:
        assert np.all(alike(function(words(values)), expected(jnp.asarray(values))))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_becomes_the_word_of_its_value(dtype):
    bits = np.arange(1 << 16, dtype=np.uint32)
    bits = jnp.asarray(bits << 16 | bits) if dtype is np.float32 else jnp.asarray(bits, np.uint16)
    values = lax.bitcast_convert_type(bits, dtype)
    expected = np.asarray(jax.jit(lambda x: lax.convert_element_type(x, np.float64))(values))
    assert np.all(same(jax.jit(arithmetic.to_word)(values), expected))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(rng, dtype):
    values = rng.integers(0, 2**64, 4096, dtype=np.uint64) >> rng.integers(0, 64, 4096, np.uint64)
    whole = values.astype(dtype)
    assert np.all(same(jax.jit(arithmetic.to_word)(jnp.asarray(whole)), whole.astype(np.float64)))
    back = jax.jit(lambda word: arithmetic.from_word(word, dtype))
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
    got = arithmetic.from_word(words([0.0, -0.0, 1e-300, np.nan, np.inf]), np.bool_)
    assert got.tolist() == [False, False, True, True, True]
    assert numbers(arithmetic.to_word(jnp.array([False, True]))).tolist() == [0, 1]


def test_signs_and_clamps():
    got = numbers(arithmetic.sign(words(SPECIAL)))
    expected = np.where(SPECIAL == 0, SPECIAL, np.sign(SPECIAL))
    assert np.all(same(words(got), expected))
    low, high = np.full_like(SPECIAL, -2), np.full_like(SPECIAL, 1)
    got = arithmetic.clamp(words(low), words(SPECIAL), words(high))
    assert np.all(same(got, np.clip(SPECIAL, -2, 1)))
