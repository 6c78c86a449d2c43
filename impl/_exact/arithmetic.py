"""The operations that all modules of this package share: seals, widening, and rounding once.

XLA rewrites arithmetic. It contracts a product and a sum to a fused multiply-add, drops pairs of
conversions, and approximates a division or a root whose result it narrows. ``seal`` stops all of
these rewrites. A product of two float32 is exact in float64, where a contraction changes nothing.

The package computes in float64 and rounds once, in ``narrow``. A second rounding, from float32 to
16 bits, gives the same result as a single one because the first is a rounding to odd (Boldo and
Melquiond 2008, doi:10.1109/TC.2007.70819)::

    value                       1 + 2**-8 + 2**-40     just above halfway between two bfloat16
    nearest float32             1 + 2**-8              then bfloat16: 1, the even neighbour
    float32 rounded to odd      1 + 2**-8 + 2**-23     then bfloat16: 1 + 2**-7, as rounded once

``impl._core.numerics`` has another ``seal`` and another ``product``, for every op of ``impl``. The
seal there also takes complex numbers, integers and floats of 8 bits, but it uses its operand
several times, and XLA may compute the operand again for each use. The seal here takes floats of 16
to 64 bits and uses its operand once: one fusion of this package can have dozens of seals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import contexts
from impl._core.lax_functions import number
from impl._core.numerics import zero_below
from impl._jax.lowering import zeros_of_run_time

#: The least float64 whose rounding to 24 bits is 2**-126, the least normal float32. A CPU that
#: flushes subnormals rounds first, so it keeps this value. Every device counts smaller values as
#: zero.
_TINY = 2.0**-126 * (1 - 2.0**-25)
#: The bounds of the exponents that ``power_of_two`` takes.
MIN_EXPONENT, MAX_EXPONENT = -1022, 1023


def wide() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which arrays of 64 bits can be made, whatever ``jax_enable_x64`` is."""
    scope: contextlib.AbstractContextManager[Any] = jax.enable_x64(True)
    return scope


#: The platforms that take subnormal floats for zero by themselves.
_FLUSHING = frozenset({"cpu"})


def are_kept_on(platforms: Iterable[str]) -> bool:
    """Returns whether one of some platforms, by JAX's names, keeps subnormal floats."""
    return not _FLUSHING.issuperset(platforms)


def where_subnormals(*, are_kept: bool) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which functions are traced for devices that keep subnormal floats, or not.

    A CPU takes subnormal floats for zero by itself, also in conversions of float32 to float64.
    Outside of any scope, they are kept.
    """
    scope: contextlib.AbstractContextManager[Any] = contexts.keeps_subnormals(are_kept)
    return scope


def seal(value: jax.Array) -> jax.Array:
    """Returns ``value``, rounded to its own dtype before anything else uses it.

    On a CPU, the seal of an array subtracts zeros that the running program alone knows. A fused
    multiply-add of a product and such a zero is the rounded product, and costs as much.

    Elsewhere the seal is a minimum of the bits as integers, and the payload of one NaN changes.
    Floats of 16 bits need it because XLA computes their differences in float32; scalars, because
    the function of a reduction cannot read such a zero; other devices, to launch no kernel for it.

    XLA looks through neither, and does not compute the value twice, since a seal uses it once.
    """
    if _has_zeros(value):
        return lax.sub(value, zeros_of_run_time(value))
    word = jnp.dtype(f"int{8 * value.dtype.itemsize}")
    raw = lax.bitcast_convert_type(value, word)
    sealed = lax.min(raw, number(raw, np.iinfo(word).max - 1))
    return lax.bitcast_convert_type(sealed, value.dtype)


def _has_zeros(value: jax.Array) -> bool:
    """Returns whether ``seal`` subtracts zeros that the running program alone knows."""
    is_wide = value.dtype.itemsize >= np.dtype(np.float32).itemsize
    return is_wide and value.ndim > 0 and not contexts.keeps_subnormals.value


def add(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a + b``, rounded before anything else uses it.

    XLA replaces the sum by ``a`` where it proves that ``b`` is 0, so -0 + 0 would be -0. Whether it
    proves that can depend on the number of devices. XLA proves nothing of a difference with unknown
    zeros. Elsewhere the bits of the two operands decide the sign of a sum of zeros. XLA cannot look
    through this choice, so it seals the sum too.
    """
    if _has_zeros(a):
        return lax.add(seal(a), seal(b))
    word = jnp.dtype(f"int{8 * a.dtype.itemsize}")
    raw, of_a, of_b = (lax.bitcast_convert_type(each, word) for each in (lax.add(a, b), a, b))
    either = lax.bitwise_or(of_a, of_b)
    are_zeros = lax.eq(either, lax.neg(either))  # The bits of 0 and of -0 alone are so.
    chosen = lax.select(are_zeros, lax.bitwise_and(of_a, of_b), raw)
    return lax.bitcast_convert_type(chosen, a.dtype)


def subtract(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a - b``, rounded before anything else uses it, with the sign that ``add`` gives."""
    return add(a, lax.neg(b))


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a * b``, rounded before a sum uses it."""
    return seal(lax.mul(a, b))


def widen(value: jax.Array) -> jax.Array:
    """Returns a float of 32 bits or fewer as float64. A subnormal float32 counts as zero."""
    result = lax.convert_element_type(value, np.float64)
    return _flushed_float32(result)


def is_long(dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether a dtype is float64."""
    return jnp.dtype(dtype) == np.float64


def at_least_float32(value: jax.Array) -> jax.Array:
    """Returns a float of 16 bits as float32, and a wider float as it is."""
    if value.dtype.itemsize >= 4:
        return value
    return lax.convert_element_type(value, np.float32)


def narrow(value: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns a float64 rounded once to floats of 16 to 64 bits: to the nearest, ties to even.

    A value below the least normal float32, after it is rounded to 24 bits, becomes a zero of its
    sign.
    """
    return narrow_sum(seal(value), dtype)


def narrow_sum(value: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns a float64 as ``narrow`` does, if no division or root computed it."""
    dtype = jnp.dtype(dtype)
    if dtype == np.float64:
        return value
    if dtype.itemsize < 4:
        value = _rounded_to_odd(value)
    result = seal(lax.convert_element_type(_flushed_float32(value), np.float32))
    return result if dtype == np.float32 else seal(lax.convert_element_type(result, dtype))


def _flushed_float32(value: jax.Array) -> jax.Array:
    """Returns float64 with zeros for the subnormals of float32, if the devices keep subnormals."""
    return zero_below(value, _TINY) if contexts.keeps_subnormals.value else value


def flushed_float64(value: jax.Array) -> jax.Array:
    """Returns float64 with a zero of its sign for each subnormal number, on every device."""
    return zero_below(value, 2.0**MIN_EXPONENT)


def finite_or_zero(value: jax.Array) -> jax.Array:
    """Returns floats with zeros for infinities and NaNs."""
    return lax.select(lax.is_finite(value), value, lax.full_like(value, 0))


def _rounded_to_odd(value: jax.Array) -> jax.Array:
    """Returns a float64 rounded to odd: cut to 24 bits, the last of which is 1 if a bit was lost.

    Rounding the result to 22 bits or fewer gives the same number as rounding ``value``.
    """
    lost = 52 - 23
    raw = lax.bitcast_convert_type(value, np.int64)
    rest = lax.bitwise_and(raw, number(raw, (1 << lost) - 1))
    sticky = lax.convert_element_type(lax.ne(rest, number(rest, 0)), np.int64)
    sticky = lax.shift_left(sticky, number(raw, lost))
    odd = lax.bitwise_or(lax.bitwise_xor(raw, rest), sticky)
    finite = lax.is_finite(value)
    return lax.select(finite, lax.bitcast_convert_type(odd, np.float64), value)


def two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns ``a + b`` rounded to nearest, and the rounding error, which has no error itself.

    This is TwoSum (Knuth, *The Art of Computer Programming* 2, section 4.2.2). If the sum is not
    finite, the error is a NaN.
    """
    near = seal(lax.add(a, b))
    of_b = lax.sub(near, a)
    return near, lax.add(lax.sub(a, lax.sub(near, of_b)), lax.sub(b, of_b))


def add_to_odd(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a + b`` rounded to odd: if inexact, the neighbour of the sum whose last bit is 1.

    Rounding the result to a narrower dtype gives the same number as rounding the exact sum (Boldo
    and Melquiond 2008). Both are float64 of one shape.
    """
    return to_odd(*two_sum(a, b))


def to_odd(near: jax.Array, error: jax.Array) -> jax.Array:
    """Returns ``near + error`` rounded to odd, where ``near`` is the nearest float64 to the sum.

    If the error, float64, is 0 or not finite, the result is ``near``.
    """
    zero = lax.full_like(error, 0)
    raw = lax.bitcast_convert_type(near, np.int64)
    none, one = lax.full_like(raw, 0), lax.full_like(raw, 1)
    grows = lax.eq(lax.lt(near, zero), lax.lt(error, zero))
    odd = lax.bitwise_or(lax.add(raw, lax.select(grows, none, lax.neg(one))), one)
    is_inexact = lax.bitwise_and(lax.ne(error, zero), lax.is_finite(error))
    return lax.bitcast_convert_type(lax.select(is_inexact, odd, raw), np.float64)


def power_of_two(exponent: jax.Array) -> jax.Array:
    """Returns 2 to the power of an int32 or int64 from MIN_EXPONENT to MAX_EXPONENT, as float64."""
    raw = lax.convert_element_type(exponent, np.int64)
    raw = lax.add(raw, number(raw, 1023))
    return lax.bitcast_convert_type(lax.shift_left(raw, number(raw, 52)), np.float64)


def scaled(value: jax.Array, exponent: jax.Array) -> jax.Array:
    """Returns float64 times 2 to the power of integers, as ``scaled_normal``.

    Zeros, infinities and NaNs stay.
    """
    size = lax.abs(value)
    least, infinity = (lax.full_like(value, each) for each in (2.0**MIN_EXPONENT, np.inf))
    is_normal = lax.bitwise_and(lax.ge(size, least), lax.lt(size, infinity))
    return lax.select(is_normal, scaled_normal(value, exponent), value)


def scaled_normal(value: jax.Array, exponent: jax.Array) -> jax.Array:
    """Returns normal float64 times 2 to the power of whole numbers of any dtype.

    The result is infinite if it is too great, and a zero below the normal numbers.
    """
    raw = lax.bitcast_convert_type(value, np.int64)
    shift = lax.convert_element_type(exponent, np.int64)
    fraction, top = number(raw, 52), number(raw, 0x7FF)
    field = lax.bitwise_and(lax.shift_right_logical(raw, fraction), top)
    field = lax.add(field, shift)
    sign = lax.bitwise_and(raw, number(raw, np.iinfo(np.int64).min))
    infinity = lax.bitwise_or(sign, number(raw, 0x7FF << 52))
    result = lax.add(raw, lax.shift_left(shift, fraction))
    result = lax.select(lax.lt(field, top), result, infinity)
    result = lax.select(lax.gt(field, number(raw, 0)), result, sign)
    return lax.bitcast_convert_type(result, np.float64)


def significand(value: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns float64 brought to magnitudes from 1 to 2, as bits, and their exponents, int64.

    Of zeros, infinities and NaNs, both are undefined.
    """
    raw, exponents = lax.bitcast_convert_type(value, np.int64), 0x7FF << 52
    field = lax.shift_right_logical(lax.bitwise_and(raw, number(raw, exponents)), number(raw, 52))
    raw = lax.bitwise_and(raw, number(raw, ~exponents))
    return lax.bitwise_or(raw, number(raw, 1023 << 52)), lax.sub(field, number(raw, 1023))


def reciprocal(power: jax.Array) -> jax.Array:
    """Returns 1 / power of powers of two, float64, where that is a normal number."""
    raw = lax.bitcast_convert_type(power, np.int64)
    one = number(raw, (2 * 1023) << 52)
    return lax.bitcast_convert_type(lax.sub(one, raw), np.float64)


def exponent_above(magnitude: jax.Array) -> jax.Array:
    """Returns the least int32 e for which ``magnitude < 2**e``, of float64.

    The magnitude is zero, which gives -1022, or at least 2**-1022; an infinity or a NaN gives 1025.
    """
    raw = lax.bitcast_convert_type(magnitude, np.int64)
    biased = lax.shift_right_logical(raw, number(raw, 52))
    return lax.sub(lax.convert_element_type(biased, np.int32), lax.full(raw.shape, 1022, np.int32))


def nearest_integer(value: jax.Array) -> jax.Array:
    """Returns each element rounded to an integer, as a float: to the nearest, ties to even."""
    return lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
