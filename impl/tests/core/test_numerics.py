"""Arithmetic that the compiler must not change."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core.numerics import accumulator, convert, identity, product, seal, square_root
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread


def test_a_product_is_rounded_before_the_sum_takes_it_up():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(1000).astype(np.float32) for _ in range(3))
    assert_same_bits(jax.jit(lambda a, b, c: product(a, b) + c)(a, b, c), a * b + c)
    a[:2], b[:2] = [np.inf, np.nan], 0
    result = jax.jit(product)(a, b)
    assert np.isnan(result[:2]).all()
    assert_same_bits(result[2:], a[2:] * b[2:])


def test_products_of_integers_and_complex_numbers():
    assert product(jnp.array([3]), 2).tolist() == [6]
    assert product(jnp.array([1 + 2j]), 2j).tolist() == [-4 + 2j]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_a_seal_keeps_the_numbers_of_narrow_floats(dtype):
    x = jnp.array([1, -1.5, 0, jnp.nan], dtype)
    np.testing.assert_array_equal(np.asarray(jax.jit(seal)(x), float), np.asarray(x, float))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_a_square_root_is_rounded_although_that_of_the_device_is_not(dtype):
    info, word = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, np.array(info.max).view(word), 300_000, word).view(dtype)
    squares = rng.integers(1, 4096, 10_000).astype(dtype) ** 2
    near = [np.nextafter(squares, dtype(limit)) for limit in (0, np.inf)]
    values = np.concatenate([drawn, squares, *near, [info.tiny, info.max]]).astype(dtype)
    values = values[values >= info.tiny]
    with jax.enable_x64(True):
        for error in (-3, 0, 3):

            def approximate(value, error=error):
                raw = jax.lax.bitcast_convert_type(jax.lax.sqrt(value), jnp.dtype(word))
                return jax.lax.bitcast_convert_type(raw + jnp.array(error).astype(word), dtype)

            root = jax.jit(functools.partial(square_root, approximate=approximate))
            assert_same_bits(root(values), np.sqrt(values))


def test_square_roots_of_zeros_infinities_nans_and_negative_numbers():
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(square_root(jnp.asarray(special)), np.sqrt(special))
    assert np.signbit(square_root(jnp.asarray(special)))[1]


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_a_rounding_to_a_narrow_float_is_not_dropped(dtype):
    values = spread(np.random.default_rng(0), 1000)
    expected = values.astype(dtype).astype(np.float32)
    assert expected.tobytes() != values.tobytes()
    result = jax.jit(lambda v: convert(convert(v, np.dtype(dtype)), np.dtype(np.float32)))(values)
    assert_same_bits(result, expected)


@pytest.mark.parametrize(
    ("dtype", "accumulated_in"),
    [
        (np.float16, np.float32),
        (jnp.bfloat16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (bool, np.int32),
        (np.int8, np.int32),
        (np.uint32, np.int32),
        (np.int64, np.int64),
        (np.uint64, np.int64),
        (np.complex64, np.complex64),
    ],
)
def test_the_dtype_of_sums(dtype, accumulated_in):
    assert accumulator(dtype) == accumulated_in


def test_the_identity_of_addition_keeps_every_bit():
    values = np.array([0.0, -0.0, np.inf, 1.5], np.float32)
    assert_same_bits(np.float32(identity(np.float32)) + values, values)
    assert identity(np.int32) == 0
