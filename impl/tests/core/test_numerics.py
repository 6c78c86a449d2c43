"""Arithmetic that the compiler must not change, the order of floats, and stand-ins of jax.numpy.

Tests: impl._core.float_order, impl._core.lax_functions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn

from impl._core import float_order, lax_functions
from impl._core.numerics import accumulator, convert, identity, in_memory, product, quotient, seal
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


def test_the_derivative_of_a_product_does_not_depend_on_its_value():
    gradient = jax.vmap(jax.grad(product), (0, None))
    assert gradient(jnp.array([2, jnp.inf, jnp.nan]), 3.0).tolist() == [3] * 3


def test_values_in_memory_are_computed_outside_of_the_loop_that_reads_them():
    def is_one_loop(read):
        text = jax.jit(read).lower(jnp.ones((5, 2))).compile().as_text()
        loops = text.split("ENTRY")[0].split("\n}")
        return any(" gather(" in loop and " multiply(" in loop for loop in loops)

    index = np.arange(9) % 5
    assert is_one_loop(lambda x: (x * x)[index])
    assert not is_one_loop(lambda x: in_memory(x * x)[index])


def test_products_of_integers_and_complex_numbers():
    assert product(jnp.array([3]), 2).tolist() == [6]
    assert product(jnp.array([1 + 2j]), 2j).tolist() == [-4 + 2j]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_a_seal_keeps_the_numbers_of_narrow_floats(dtype):
    x = jnp.array([1, -1.5, 0, jnp.nan], dtype)
    np.testing.assert_array_equal(np.asarray(jax.jit(seal)(x), float), np.asarray(x, float))


@pytest.mark.parametrize("error", [-4, 0, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_a_quotient_is_rounded_although_that_of_the_device_is_not(dtype, error, monkeypatch):
    info, divide, rng = np.finfo(dtype), jax.lax.div, np.random.default_rng(0)
    scale = dtype(1 + error * info.epsneg)
    monkeypatch.setattr(jax.lax, "div", lambda a, b: divide(a, b) * scale)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    limits = np.array([info.tiny, info.max]).view(word)
    a, b = rng.integers(*limits, (2, 300_000), word).view(dtype)
    with np.errstate(over="ignore", under="ignore"):
        expected = a / b
    is_normal = expected >= info.tiny
    with jax.enable_x64(True):
        assert_same_bits(jax.jit(quotient)(a, -b)[is_normal], -expected[is_normal])


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_a_rounding_to_a_narrow_float_is_not_dropped(dtype):
    values = spread(np.random.default_rng(0), 1000)
    expected = values.astype(dtype).astype(np.float32)
    assert expected.tobytes() != values.tobytes()
    result = jax.jit(lambda v: convert(convert(v, np.dtype(dtype)), np.dtype(np.float32)))(values)
    assert_same_bits(result, expected)


def test_the_dtype_of_sums():
    for accumulated_in, dtypes in {
        "float32": ("float16", "bfloat16", "float32"),
        "float64": ("float64",),
        "int32": ("bool", "int8", "uint32"),
        "int64": ("int64", "uint64"),
        "complex64": ("complex64",),
    }.items():
        assert {accumulator(np.dtype(each)) for each in dtypes} == {np.dtype(accumulated_in)}


def test_the_identity_of_addition_keeps_every_bit():
    values = np.array([0.0, -0.0, np.inf, 1.5], np.float32)
    assert_same_bits(np.float32(identity(np.float32)) + values, values)
    assert identity(np.int32) == 0


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


X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
CHOICES = {
    "arrays of one type": (X > 2, X, -X),
    "a number": (X > 2, X, 0),
    "rows": (X > 2, X[0], jnp.int32(7)),
    "a condition of one element": (jnp.bool_(True), X, X[0]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_where_chooses_as_jax_numpy_does(name):
    operands = CHOICES[name]
    result, expected = lax_functions.where(*operands), jnp.where(*operands)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    assert "jit" not in str(jax.make_jaxpr(lax_functions.where)(*operands))
