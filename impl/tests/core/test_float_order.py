"""Integers in the order of floats.

Tests: impl._core.float_order.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn

from impl._core import float_order

#: In ascending order; the neighbours at 2 and 3, and those at the end, are equal.
VALUES = [-np.inf, -1.5, -0.0, 0.0, 1.0, np.inf, np.nan, -np.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16, float8_e4m3fn])
def test_keys_are_in_order_and_equal_for_equal_elements(dtype):
    values = np.array([v for v in VALUES if dtype is not float8_e4m3fn or not np.isinf(v)], dtype)
    keys = np.asarray(jax.jit(float_order.sort_keys)(values), np.int64)
    equal = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    np.testing.assert_array_equal(np.sign(np.diff(keys)), 1 - equal)
    assert keys[-1] == np.iinfo(float_order.sort_keys(jnp.asarray(values)).dtype).max


def test_subnormals_are_between_zero_and_normal_numbers():
    tiny = np.finfo(np.float32).tiny
    values = np.array([-tiny, -1e-40, 0, 1e-45, 1e-40, tiny], np.float32)
    assert (np.diff(np.asarray(jax.jit(float_order.sort_keys)(values))) > 0).all()


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint4", "int8", "uint32"])
def test_keys_of_integers_are_these_integers(dtype):
    keys = float_order.sort_keys(jnp.asarray([1, 0], dtype))
    assert keys.tolist() == [1, 0]
    assert keys.dtype.itemsize == max(1, np.dtype(dtype).itemsize)
    assert jnp.iinfo(keys.dtype).bits >= 8


def test_a_nan_is_the_greatest_or_the_lowest_integer():
    nans = jnp.asarray([np.nan, -np.nan], jnp.float32)
    limits = np.iinfo(np.int32)
    for sign, integer in ((1, limits.max), (-1, limits.min)):
        assert float_order.ordered_bits(sign, nans).tolist() == [integer] * 2
    bits = jnp.asarray([3, -3, limits.min], jnp.int32)
    assert float_order.in_order(float_order.in_order(bits)).tolist() == bits.tolist()
