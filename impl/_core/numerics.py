"""Arithmetic that XLA must not change, and the dtypes and constants of sums.

XLA rewrites arithmetic: it contracts products with sums, drops roundings and replaces divisions.
The functions here are written so that each supported release of XLA gives the same bits::

    a * b + c               XLA on a CPU may round once (a fused multiply-add)
    seal(a * b) + c         rounds twice, on every device
    x / 3.0                 XLA multiplies by the rounded 1/3: 5.0 / 3.0 may be off in the last bit
    quotient(x, three)      the nearest float, also where a GPU divides with 2 units of error

``quotient`` takes the device's approximate result and corrects it by the remainder, which integers
hold exactly. Muller et al., *Handbook of Floating-Point Arithmetic* (2nd edition, 2018), describe
such corrections.

``seal`` and ``product`` serve every op, and need no 64 bits. ``impl._exact.arithmetic`` has a
second pair for the inside of exact sums and functions, and says why.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from impl._core.lax_functions import filled
from impl._jax.releases import FENCES_HOLD

_Arrays = TypeVar("_Arrays")

#: The scope of divisions that may be approximate, since integer arithmetic corrects them.
#: Instructions of compiled programs have it in their metadata.
MENDED = "samebits_mended"
#: The attribute of operations that ``in_any_order`` marks.
ANY_ORDER = "samebits_any_order"


def identity(dtype: jax.typing.DTypeLike) -> float | int:
    """Returns the identity of addition: -0 for floats, since -0 + x has the bits of x for all x."""
    return -0.0 if jnp.issubdtype(dtype, jnp.inexact) else 0


def lowest(dtype: jax.typing.DTypeLike) -> np.generic:
    """Returns the least value of a real dtype: minus infinity, if the dtype has it."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return _scalar(jnp.iinfo(dtype).min, dtype)
    return _scalar(-np.inf if _has_infinity(dtype) else jnp.finfo(dtype).min, dtype)


def highest(dtype: jax.typing.DTypeLike) -> np.generic:
    """Returns the greatest value of a real dtype: infinity, if the dtype has it."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return _scalar(jnp.iinfo(dtype).max, dtype)
    return _scalar(np.inf if _has_infinity(dtype) else jnp.finfo(dtype).max, dtype)


def _scalar(value: Any, dtype: jax.typing.DTypeLike) -> np.generic:
    return np.dtype(dtype).type(value)


def _has_infinity(dtype: jax.typing.DTypeLike) -> bool:
    # Several floats of 8 bits have none: infinity becomes NaN, or their greatest number.
    return bool(np.isinf(np.array(np.inf).astype(np.dtype(dtype))))


def fill_value(dtype: jax.typing.DTypeLike) -> float | int | bool:
    """Returns the known value of fresh memory: NaN, the greatest integer, or True."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return float("nan")
    return True if jnp.dtype(dtype) == jnp.bool_ else int(jnp.iinfo(dtype).max)


def accumulator(dtype: jax.typing.DTypeLike) -> np.dtype:
    """Returns the dtype in which values of ``dtype`` are added up.

    float16 and bfloat16 are added in float32 and rounded once. Integers are added in at least 32
    bits, which wraps around to the same bits.
    """
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.dtype(np.int32)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    if jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize <= 4:
        return np.dtype(np.int32)
    return np.dtype(np.int64) if dtype == np.uint64 else dtype


def in_any_order() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope of operations that may add floats in any order, and round as they like.

    Their sums are exact, or a bound of the errors decides how a result is rounded. The scope marks
    the operations of a lowered program, so that its readers report no race.
    """
    scope: contextlib.AbstractContextManager[Any] = set_xla_metadata(**{ANY_ORDER: "bounded"})
    return scope


def fence(value: _Arrays) -> _Arrays:
    """Returns an array, or a tree of arrays. XLA rewrites nothing across this point."""
    fenced: _Arrays = lax.optimization_barrier(value)
    return fenced


def in_memory(value: _Arrays) -> _Arrays:
    """Returns what ``fence`` does. XLA computes each element once, however often it is read.

    XLA of jax 0.10 fuses past a fence (``FENCES_HOLD``), but not past a call that stays a call.
    """
    if FENCES_HOLD:
        return fence(value)
    with set_xla_metadata(inlineable="false"):
        return jax.jit(fence)(value)  # type: ignore[no-any-return]


def seal(value: jax.Array) -> jax.Array:
    """Returns ``value``, rounded to its own dtype before a sum uses it.

    XLA contracts a product and a sum in one fusion to a fused multiply-add. With jax 0.10 it does
    so even across an optimization_barrier (``FENCES_HOLD``). XLA does not contract a product that
    has several uses, so the seal uses ``value`` several times. It returns integers as they are.
    """
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return lax.complex(seal(value.real), seal(value.imag))
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    bound = jnp.inf if _has_infinity(value.dtype) else float(jnp.finfo(value.dtype).max)
    # Nearly every lowering calls this. Each function of jax.numpy is a trace of its own.
    is_number = lax.le(lax.abs(value), value.dtype.type(bound))
    return lax.select(is_number, value, lax.add(value, value))


def isolate(value: jax.Array) -> jax.Array:
    """Returns ``value``, rounded before a sum uses it, by a fence where fences hold, or by a seal.

    For a ``value`` in memory a fence is free. A seal reads and writes the value once.
    """
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    if not FENCES_HOLD:
        return seal(value)
    # XLA copies an array with an axis of one element, where it moves the axis past a fence.
    short = lax.squeeze(value, [axis for axis, size in enumerate(value.shape) if size == 1])
    return lax.reshape(fence(short), value.shape)


def product(a: jax.Array, b: jax.typing.ArrayLike) -> jax.Array:
    """Returns the real product ``a * b``, rounded before a sum uses it."""
    alike = isinstance(b, jax.Array) and b.shape == a.shape and b.dtype == a.dtype
    return _sealed(lax.mul(a, b) if alike else a * b)


#: A seal with the derivative of the identity; its own derivative doubles the tangent of a NaN.
_sealed = jax.custom_jvp(seal)
_sealed.defjvps(lambda dot, *_: dot)


@jax.named_scope(MENDED)
def quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a / b`` for float32 or float64, rounded to nearest on every device.

    XLA turns a division by a broadcast value into a multiplication by its reciprocal, and divides
    float32 on a GPU with an error of up to 2 units in the last place. Here, integer arithmetic
    corrects the device's quotient of the significands by its remainder. Subnormal operands and
    results count as zero.
    """
    # Each operation is of ``lax``: one equation.
    info = jnp.finfo(a.dtype)
    word, fraction = np.dtype(f"int{info.bits}"), info.nmant
    top, lead = (1 << (info.bits - 1 - fraction)) - 1, 1 << fraction
    infinity, sign_bit = top << fraction, int(np.iinfo(word).min)
    raw_a, raw_b = (lax.bitcast_convert_type(x, word) for x in (a, b))
    # Makes each array of an integer once.
    fills = functools.cache(functools.partial(filled, raw_a))

    def exponent_of(raw: jax.Array) -> jax.Array:
        return lax.bitwise_and(lax.shift_right_logical(raw, fills(fraction)), fills(top))

    def significand_of(raw: jax.Array) -> jax.Array:
        return lax.bitwise_or(lax.bitwise_and(raw, fills(lead - 1)), fills(lead))

    def is_normal(exponent: jax.Array) -> jax.Array:
        return lax.bitwise_and(lax.gt(exponent, fills(0)), lax.lt(exponent, fills(top)))

    exponents = [exponent_of(raw) for raw in (raw_a, raw_b)]
    m, d = (significand_of(raw) for raw in (raw_a, raw_b))
    less = lax.lt(m, d)
    m = lax.select(less, lax.shift_left(m, fills(1)), m)
    exponent = lax.add(lax.sub(*exponents), fills(top >> 1))
    exponent = lax.sub(exponent, lax.convert_element_type(less, word))
    # The quotient q has a leading 1, the bits of the fraction, and one bit more to round by. It
    # starts 16 too low, since the device may be off by 4 units in the last place. The products
    # may overflow a word, but their difference, the remainder, is small and therefore exact.
    wide_d = lax.convert_element_type(d, a.dtype)
    near = lax.div(lax.convert_element_type(m, a.dtype), wide_d)
    near = lax.mul(near, a.dtype.type(2 << fraction))
    q = lax.sub(lax.convert_element_type(near, word), fills(16))
    rest = lax.sub(lax.shift_left(m, fills(fraction + 1)), lax.mul(q, d))
    # The remainder is at most 32 times the divisor, so this second quotient is off by at most 1.
    more = lax.div(lax.convert_element_type(rest, a.dtype), wide_d)
    more = lax.convert_element_type(more, word)
    q, rest = lax.add(q, more), lax.sub(rest, lax.mul(more, d))
    q = lax.sub(q, lax.convert_element_type(lax.lt(rest, fills(0)), word))
    q = lax.add(q, lax.convert_element_type(lax.ge(rest, d), word))
    # No quotient is halfway: a quotient of two floats of p bits never has exactly p + 1 bits. A
    # carry out of the fraction increases the exponent.
    last = lax.bitwise_and(q, fills(1))
    rounded = lax.add(lax.shift_right_logical(q, fills(1)), last)
    rounded = lax.sub(rounded, fills(lead))
    packed = lax.add(lax.shift_left(exponent, fills(fraction)), rounded)
    infinite = lax.ge(exponent, fills(top))
    packed = lax.select(infinite, fills(infinity), lax.min(packed, fills(infinity)))
    packed = lax.select(lax.le(exponent, fills(0)), fills(0), packed)
    sign = lax.bitwise_and(lax.bitwise_xor(raw_a, raw_b), fills(sign_bit))
    exact = lax.bitcast_convert_type(lax.bitwise_or(sign, packed), a.dtype)
    ordinary = lax.bitwise_and(*map(is_normal, exponents))
    return lax.select(ordinary, exact, lax.div(a, b))


def zero_below(value: jax.Array, bound: float) -> jax.Array:
    """Returns floats with a zero of the same sign where the magnitude is below ``bound``."""
    is_small = lax.lt(lax.abs(value), filled(value, bound))
    return lax.select(is_small, lax.mul(value, filled(value, 0)), value)


def convert(value: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Converts to ``dtype``, and keeps the rounding of a conversion to a narrow float.

    XLA may drop a conversion to a narrow float and the conversion back, by
    ``xla_allow_excess_precision``. A fence on the narrow side keeps the rounding.
    ``reduce_precision`` would keep it too, but it flushes the subnormals of float16.
    """
    if value.dtype == dtype:
        return value
    if accumulator(value.dtype) != value.dtype:
        value = fence(value)
    out = lax.convert_element_type(value, dtype)
    return fence(out) if accumulator(dtype) != dtype else out
