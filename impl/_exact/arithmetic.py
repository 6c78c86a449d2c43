"""The words of exact arithmetic: widening, rounding once, powers of two, and seals.

XLA contracts a product and a sum to a fused multiply-add, drops pairs of conversions, and divides
and takes roots with an approximation where it narrows the result. A seal stops all of these. A
product of two float32 in float64 is exact, so its contraction changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

#: The least float64 that 24 bits round to 2**-126, the least normal float32. Every device counts
#: what is below as zero. A CPU that flushes rounds first, so it keeps what is above.
_TINY = 2.0**-126 * (1 - 2.0**-25)
#: The bounds of the exponents that ``power_of_two`` takes.
MIN_EXPONENT, MAX_EXPONENT = -1022, 1023


def wide() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which arrays of 64 bits can be made, whatever ``jax_enable_x64`` is."""
    scope: contextlib.AbstractContextManager[Any] = jax.enable_x64(True)
    return scope


#: The platforms that take subnormal floats for zero by themselves.
_FLUSHING = frozenset({"cpu"})
#: Whether the device keeps subnormals, which are then dropped here; part of the key of jit.
_keeps_subnormals = jax.make_user_context(True)


def are_kept_on(platforms: Iterable[str]) -> bool:
    """Returns whether one of some platforms keeps subnormal floats.

    Args:
        platforms: JAX's names of platforms.
    """
    return not _FLUSHING.issuperset(platforms)


def where_subnormals(*, are_kept: bool) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which functions are made for devices that keep subnormal floats, or not.

    A CPU takes them for zero by itself, also in conversions between float32 and float64.

    Args:
        are_kept: Whether the devices keep them. It is so outside of any scope.
    """
    scope: contextlib.AbstractContextManager[Any] = _keeps_subnormals(are_kept)
    return scope


def seal(value: jax.Array) -> jax.Array:
    """Returns ``value``, rounded to its own dtype before anything else uses it.

    A minimum of integers uses the value once, so XLA does not compute the value twice, and cannot
    look through it. It changes the payload of one NaN.
    """
    word = jnp.dtype(f"int{8 * value.dtype.itemsize}")
    raw = lax.bitcast_convert_type(value, word)
    sealed = lax.min(raw, lax.full_like(raw, jnp.iinfo(word).max - 1))
    return lax.bitcast_convert_type(sealed, value.dtype)


def add(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a + b``, rounded before anything else uses it.

    XLA takes ``a`` for the sum where it proves that ``b`` is 0, which can depend on the number of
    devices: -0 + 0 would be -0 then. So the bits of two zeros decide the sign of their sum. XLA
    cannot look through the choice, which therefore is a seal too.
    """
    word = jnp.dtype(f"int{8 * a.dtype.itemsize}")
    raw, of_a, of_b = (lax.bitcast_convert_type(each, word) for each in (lax.add(a, b), a, b))
    magnitudes = lax.shift_left(lax.bitwise_or(of_a, of_b), lax.full_like(raw, 1))
    are_zeros = lax.eq(magnitudes, lax.full_like(raw, 0))
    chosen = lax.select(are_zeros, lax.bitwise_and(of_a, of_b), raw)
    return lax.bitcast_convert_type(chosen, a.dtype)


def subtract(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a - b``, rounded before anything else uses it, with the sign that ``add`` gives."""
    return add(a, lax.neg(b))


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a * b``, rounded before any sum that it is a term of."""
    return seal(lax.mul(a, b))


def widen(value: jax.Array) -> jax.Array:
    """Returns a float of 32 bits or fewer as float64. A subnormal float32 counts as zero."""
    result = lax.convert_element_type(value, np.float64)
    return _without_subnormals(result)


def narrow(value: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns a float64 as ``dtype``, rounded once, to nearest and to even.

    What 24 bits round to less than the least normal float32 becomes a zero of the same sign. Floats
    of 16 bits are not rounded twice: the intermediate float32 is rounded to odd.

    Args:
        value: Any shape, float64.
        dtype: float16, bfloat16, float32 or float64.
    """
    dtype = jnp.dtype(dtype)
    value = seal(value)
    if dtype == np.float64:
        return value
    if dtype.itemsize < 4:
        value = _rounded_to_odd(value)
    value = _without_subnormals(value)
    result = seal(lax.convert_element_type(value, np.float32))
    return result if dtype == np.float32 else seal(lax.convert_element_type(result, dtype))


def _without_subnormals(value: jax.Array) -> jax.Array:
    if not _keeps_subnormals.value:
        return value
    is_small = lax.lt(lax.abs(value), lax.full_like(value, _TINY))
    return lax.select(is_small, lax.mul(value, lax.full_like(value, 0)), value)


def _rounded_to_odd(value: jax.Array) -> jax.Array:
    """Returns a float64 with the 24 bits of a float32, of which the last is 1 if any was lost.

    Rounding such a value to fewer than 23 bits gives what rounding the original gives.
    """
    lost = 52 - 23
    raw = lax.bitcast_convert_type(value, np.int64)
    mask = lax.full_like(raw, (1 << lost) - 1)
    rest = lax.bitwise_and(raw, mask)
    sticky = lax.convert_element_type(lax.ne(rest, lax.full_like(rest, 0)), np.int64)
    sticky = lax.shift_left(sticky, lax.full_like(raw, lost))
    odd = lax.bitwise_or(lax.bitwise_xor(raw, rest), sticky)
    finite = lax.is_finite(value)
    return lax.select(finite, lax.bitcast_convert_type(odd, np.float64), value)


def power_of_two(exponent: jax.Array) -> jax.Array:
    """Returns 2 to the power of an int32 or int64 from MIN_EXPONENT to MAX_EXPONENT, as float64."""
    raw = lax.convert_element_type(exponent, np.int64)
    raw = lax.add(raw, lax.full_like(raw, 1023))
    return lax.bitcast_convert_type(lax.shift_left(raw, lax.full_like(raw, 52)), np.float64)


def exponent_above(magnitude: jax.Array) -> jax.Array:
    """Returns the least int32 e for which ``magnitude < 2**e``.

    Args:
        magnitude: Any shape, float64, not negative, and zero or above 2**-1022. For zero the result
            is -1022, and for infinity and NaN it is 1025.
    """
    raw = lax.bitcast_convert_type(magnitude, np.int64)
    biased = lax.shift_right_logical(raw, lax.full_like(raw, 52))
    return lax.sub(lax.convert_element_type(biased, np.int32), lax.full(raw.shape, 1022, np.int32))


def nearest_integer(value: jax.Array) -> jax.Array:
    """Returns the nearest integer of each element, as a float; of two, the even one."""
    return lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
