"""Products and quotients with the same bits on every device, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from impl._core import numerics
from impl._primitives.arithmetic import divide, isolated, multiply, sqrt
from impl.tests.support.bits import assert_same_bits


def normal_floats(rng, count, dtype):
    """Numbers of any sign, exponent and significand, without subnormals."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    values = rng.integers(0, np.iinfo(word).max, count, word, endpoint=True).view(dtype)
    return values[~(np.abs(values) < np.finfo(dtype).tiny)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_a_quotient_is_rounded_as_in_ieee_754(dtype):
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        a = normal_floats(rng, 300_000, dtype)
        b = rng.permutation(a)
        counts = rng.integers(1, 1000, a.size)
        near = (rng.integers(0, 4, a.size) - 2) * np.finfo(dtype).eps + 1
        quotient = jax.jit(numerics.quotient)
        pairs = ((a, b), (a, counts), (b, near), (near, counts))
        for numerator, divisor in (tuple(v.astype(dtype) for v in pair) for pair in pairs):
            with np.errstate(all="ignore"):
                expected = numerator / divisor
            normal = ~((np.abs(expected) < 2 * np.finfo(dtype).tiny) & (numerator != 0))
            got = np.asarray(quotient(numerator, divisor))
            same = np.isnan(expected) == np.isnan(got)
            same &= np.isnan(expected) | (
                got.view(f"u{got.itemsize}") == expected.view(f"u{got.itemsize}")
            )
            assert same[normal].all(), (numerator[normal & ~same], divisor[normal & ~same])


def test_quotients_of_zeros_infinities_and_nans():
    special = np.array([0.0, -0.0, 1.0, -3.0, np.inf, -np.inf, np.nan], np.float32)
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = a / b
    got = np.asarray(divide(a, b))
    np.testing.assert_array_equal(got, expected)
    real = ~np.isnan(expected)
    assert (np.signbit(got) == np.signbit(expected))[real].all()


def test_a_broadcast_divisor_does_not_become_a_reciprocal():
    values = np.arange(1, 1000, dtype=np.float32)
    for divisor in (3, 7, 49):
        got = jax.jit(divide)(values, np.float32(divisor))
        assert_same_bits(got, values / np.float32(divisor))


def test_quotients_in_a_row_are_rounded_one_by_one():
    a, b, c, d = np.random.default_rng(0).uniform(1, 2, (4, 10_000)).astype(np.float32)
    got = jax.jit(lambda a, b, c, d: divide(a / b, c) / d)(a, b, c, d)
    assert_same_bits(got, a / b / c / d)


def test_the_division_of_a_device_has_the_bits_of_integer_arithmetic():
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(0)
            a = normal_floats(rng, 100_000, dtype)
            tiny = np.finfo(dtype).tiny
            special = np.array([0.0, -0.0, tiny, -tiny, tiny / 4, np.inf, -np.inf, np.nan], dtype)
            near = (rng.integers(1, 2**20, a.size) * tiny).astype(dtype)
            pairs = [np.meshgrid(special, special), (a, rng.permutation(a)), (near, near[::-1])]
            a, b = (np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1))
            assert_same_bits(jax.jit(divide)(a, b), jax.jit(numerics.quotient)(a, b))


def test_a_product_is_rounded_before_it_is_added():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 10_000)).astype(np.float32)
    assert_same_bits(jax.jit(lambda a, b, c: multiply(a, b) + c)(a, b, c), a * b + c)


def test_an_isolated_value_and_its_cotangent_are_rounded_before_they_are_added():
    a, b, c = np.random.default_rng(0).standard_normal((3, 10_000)).astype(np.float32)

    @jax.jit
    def function(a, b, c):
        out, pullback = jax.vjp(isolated, a * b)
        return out + c, pullback(a * b)[0] + c, jax.jvp(isolated, (c,), (a * b,))[1] + c

    for out in function(a, b, c):
        assert_same_bits(out, a * b + c)
    assert_same_bits(jax.vmap(isolated, 1)(np.stack([a, b], 1)), np.stack([a, b]))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16], ids=lambda d: d.__name__)
def test_narrow_floats_are_computed_in_float32(dtype):
    a, b = (np.random.default_rng(s).uniform(1, 2, 1000).astype(dtype) for s in (0, 1))
    a32, b32 = (v.astype(np.float32) for v in (a, b))
    assert_same_bits(divide(a, b), (a32 / b32).astype(dtype))
    assert_same_bits(multiply(a, b), (a32 * b32).astype(dtype))


def test_derivatives_of_products_and_quotients():
    a, b = np.array([1.5, -2.0, 3.0], np.float32), np.array([2.0, 0.5, -4.0], np.float32)
    for function in (multiply, divide):
        check_grads(function, (a, b), order=2, modes=["fwd", "rev"], atol=1e-2, rtol=1e-2)
        mapped = jax.vmap(function, (0, None))(np.stack([a, b]), b)
        np.testing.assert_array_equal(mapped, function(np.stack([a, b]), np.stack([b, b])))


def test_derivatives_of_roots():
    a = np.array([1.5, 0.3, 9.0], np.float32)
    check_grads(sqrt, (a,), order=2, modes=["fwd", "rev"], atol=1e-2, rtol=1e-2)
    np.testing.assert_array_equal(jax.vmap(sqrt)(np.stack([a, 4 * a])), sqrt(np.stack([a, 4 * a])))
