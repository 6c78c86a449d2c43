"""Arithmetic that XLA must not change, and the dtypes and constants of sums.

XLA rewrites arithmetic: it contracts products with sums, drops roundings and replaces divisions.
The functions here are written so that every supported release of it gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

#: The scope of divisions and roots that may be approximate, since integer arithmetic corrects them.
#: Instructions of compiled programs have it in their metadata.
MENDED = "samebits_mended"
#: Whether XLA on a CPU fuses nothing across a fence.
FENCES_HOLD = jax.__version_info__ >= (0, 11)


def identity(dtype: jax.typing.DTypeLike) -> float | int:
    """Returns the identity of addition: -0 for floats, since -0 + x has the bits of x for all x."""
    return -0.0 if jnp.issubdtype(dtype, jnp.inexact) else 0


def lowest(dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the least value of a real dtype: minus infinity, if the dtype has it."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(jnp.iinfo(dtype).min, dtype)
    return jnp.asarray(-jnp.inf if _has_infinity(dtype) else jnp.finfo(dtype).min, dtype)


def highest(dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the greatest value of a real dtype: infinity, if the dtype has it."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(jnp.iinfo(dtype).max, dtype)
    return jnp.asarray(jnp.inf if _has_infinity(dtype) else jnp.finfo(dtype).max, dtype)


def _has_infinity(dtype: jax.typing.DTypeLike) -> bool:
    # Several floats of 8 bits have none: infinity becomes NaN, or their greatest number.
    return bool(np.isinf(np.array(np.inf).astype(np.dtype(dtype))))


def fill_value(dtype: jax.typing.DTypeLike) -> float | int | bool:
    """Returns the known value of fresh memory: NaN, the greatest integer, or True."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return float("nan")
    return True if jnp.dtype(dtype) == jnp.bool_ else int(jnp.iinfo(dtype).max)


def additive_identities(shape: tuple[int, ...], dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns an array whose elements are all the identity of addition."""
    return jnp.full(shape, identity(dtype), dtype)


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


def fence(value: jax.Array) -> jax.Array:
    """Returns ``value``; XLA rewrites nothing across this point."""
    fenced: jax.Array = jax.lax.optimization_barrier(value)
    return fenced


def seal(value: jax.Array) -> jax.Array:
    """Returns ``value``; if it is a product, it is rounded before a sum uses it.

    XLA contracts a product and a sum in one fusion to a fused multiply-add, with jax 0.10 even
    across an optimization_barrier. It does not contract a product that is used several times.
    """
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return jax.lax.complex(seal(value.real), seal(value.imag))
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    bound = jnp.inf if _has_infinity(value.dtype) else float(jnp.finfo(value.dtype).max)
    # Nearly every lowering calls this. Each function of jax.numpy is a trace of its own.
    is_number = jax.lax.le(jax.lax.abs(value), jax.lax.full_like(value, bound))
    return jax.lax.select(is_number, value, jax.lax.add(value, value))


def isolate(value: jax.Array) -> jax.Array:
    """Returns ``value``; whatever computes it is rounded before a sum uses it.

    A fence costs nothing if ``value`` is in memory, where a seal reads and writes it once.
    """
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return fence(value) if FENCES_HOLD else seal(value)


def product(a: jax.Array, b: jax.typing.ArrayLike) -> jax.Array:
    """Returns the real product ``a * b``, rounded before any sum that it is a term of."""
    return seal(a * b)


@jax.named_scope(MENDED)
def quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a / b`` for float32 or float64, rounded to nearest on every device.

    XLA turns a division by a broadcast value into a multiplication by its reciprocal, and divides
    float32 on a GPU with an error of up to 2 units in the last place. Here, integer arithmetic
    corrects the device's quotient of the significands by its remainder. Subnormal operands and
    results count as zero.
    """
    info = jnp.finfo(a.dtype)
    fraction, bits = info.nmant, info.bits
    word = jnp.dtype(f"uint{bits}")
    signed = jnp.dtype(f"int{bits}")
    one = jnp.array(1, word)
    lead = one << fraction
    top = (1 << (bits - 1 - fraction)) - 1
    raw_a, raw_b = (jax.lax.bitcast_convert_type(x, word) for x in (a, b))
    exponents = [((raw >> fraction) & top).astype(signed) for raw in (raw_a, raw_b)]
    m, d = ((raw & (lead - one)) | lead for raw in (raw_a, raw_b))
    exponent = exponents[0] - exponents[1] + (top >> 1)
    less = m < d
    m, exponent = jnp.where(less, m << 1, m), exponent - less.astype(signed)
    # The quotient q has a leading 1, the bits of the fraction, and one bit more to round by. It
    # starts 16 too low, since the device may be off by 4 units in the last place. The products
    # may overflow a word, but their difference, the remainder, is small and therefore exact.
    near = jax.lax.convert_element_type(m, a.dtype) / jax.lax.convert_element_type(d, a.dtype)
    q = (near * (2 << fraction)).astype(word) - 16
    rest = (m << (fraction + 1)) - q * d
    for step in (4, 3, 2, 1, 0):
        part = d << step
        fits = rest >= part
        q = q + (fits.astype(word) << step)
        rest = jnp.where(fits, rest - part, rest)
    # No quotient is halfway: that of two numbers of a precision never ends exactly one bit later.
    rounded = (q >> 1) + (q & one)
    # The addition lets a carry out of the fraction increase the exponent.
    packed = (exponent.astype(word) << fraction) + (rounded - lead)
    sign = (raw_a ^ raw_b) & (one << (bits - 1))
    infinity = jnp.array(top, word) << fraction
    packed = jnp.where((exponent >= top) | (packed >= infinity), infinity, packed)
    packed = jnp.where(exponent <= 0, jnp.array(0, word), packed)
    exact = jax.lax.bitcast_convert_type(sign | packed, a.dtype)
    ordinary = [(e > 0) & (e < top) for e in exponents]
    return jnp.where(ordinary[0] & ordinary[1], exact, a / b)


@jax.named_scope(MENDED)
def square_root(
    value: jax.Array, approximate: Callable[[jax.Array], jax.Array] = jax.lax.sqrt
) -> jax.Array:
    """Returns the square root of float32 or float64, rounded to nearest on every device.

    XLA approximates the root of float32 on a GPU. Here, integer arithmetic corrects the root of the
    significand. Subnormal operands may count as zero.

    Args:
        value: Any shape.
        approximate: Returns square roots with an error of up to 3 units in the last place.
    """
    info = jnp.finfo(value.dtype)
    fraction, bits = info.nmant, info.bits
    word = jnp.dtype(f"uint{bits}")
    one = jnp.array(1, word)
    lead = one << fraction
    top = (1 << (bits - 1 - fraction)) - 1
    bias = top >> 1
    raw = jax.lax.bitcast_convert_type(value, word)
    exponent = raw >> fraction  # A sign would make it greater than that of infinity.
    odd = (exponent & one) ^ (bias & 1)
    m = ((raw & (lead - one)) | lead) << odd
    # The root q of the scaled significand has a leading 1, the bits of the fraction, and one bit
    # more to round by. It starts 16 too low. The products may overflow a word, but the remainder,
    # which is their difference, is small and therefore exact.
    scaled = jax.lax.convert_element_type(m, value.dtype) * float(4 << fraction)
    q = approximate(scaled).astype(word) - 16
    rest = (m << (fraction + 2)) - q * q
    for step in (16, 8, 4, 2, 1):
        part = (2 * q + step) * step
        fits = rest >= part
        q = q + jnp.where(fits, jnp.array(step, word), 0)
        rest = jnp.where(fits, rest - part, rest)
    # No root is halfway: the square of a number that ends one bit later ends three bits later.
    rounded = (q >> 1) + (q & one)
    packed = (((exponent - odd + bias) >> 1) << fraction) + (rounded - lead)
    exact = jax.lax.bitcast_convert_type(packed, value.dtype)
    return jnp.where((exponent > 0) & (exponent < top), exact, approximate(value))


def convert(value: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Converts to ``dtype`` with the rounding that this implies.

    If a conversion to a narrow float is followed by one to a wider float, XLA may drop both
    (xla_allow_excess_precision). A fence on the narrow side keeps the rounding. reduce_precision
    would keep it too, but flushes the subnormals of float16.
    """
    if value.dtype == dtype:
        return value
    if accumulator(value.dtype) != value.dtype:
        value = fence(value)
    out = value.astype(dtype)
    return fence(out) if accumulator(dtype) != dtype else out


def by_parts(function: Callable[..., jax.Array], *values: jax.Array) -> jax.Array:
    """Applies a linear ``function`` of real arrays to complex ``values``.

    ``function`` gets each value as a real array with a new leading axis of length 2: the real and
    the imaginary part.
    """
    out = function(*(jnp.stack([value.real, value.imag]) for value in values))
    return jax.lax.complex(out[0], out[1])
