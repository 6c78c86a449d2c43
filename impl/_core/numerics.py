"""Exact arithmetic that survives the compiler, and the types that sums are kept in."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def identity(dtype: jax.typing.DTypeLike) -> float | int:
    """The identity of addition: -0 for floats, since -0 + x has the bits of x for every x."""
    return -0.0 if jnp.issubdtype(dtype, jnp.inexact) else 0


def lowest(dtype: jax.typing.DTypeLike) -> jax.Array:
    """What is above no number of ``dtype``: minus infinity, or the least integer."""
    floats = jnp.issubdtype(dtype, jnp.floating)
    return jnp.asarray(-jnp.inf if floats else jnp.iinfo(dtype).min, dtype)


def known_value(dtype: jax.typing.DTypeLike) -> float | int | bool:
    """What the mode fills fresh memory with: NaN, the greatest integer, or True."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return float("nan")
    return True if jnp.dtype(dtype) == jnp.bool_ else int(jnp.iinfo(dtype).max)


def zeros(shape: tuple[int, ...], dtype: jax.typing.DTypeLike) -> jax.Array:
    """An array that holds the identity of addition."""
    return jnp.full(shape, identity(dtype), dtype)


def accumulator(dtype: jax.typing.DTypeLike) -> np.dtype:
    """The type in which sums of ``dtype`` are kept.

    float16 and bfloat16 are kept in float32 and rounded once; integers narrower than 32 bits in
    32 bits, which wraps around to the same bits.
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
    """``value`` itself, past which XLA rewrites nothing."""
    fenced: jax.Array = jax.lax.optimization_barrier(value)
    return fenced


def product(a: jax.Array, b: jax.typing.ArrayLike) -> jax.Array:
    """``a * b``, rounded once, also where a sum takes it up.

    XLA contracts a product and a sum of one fusion to a fused multiply-add, on jax 0.10 even
    across an optimization_barrier. A product of several uses is not contracted.
    """
    p = a * b
    if not jnp.issubdtype(p.dtype, jnp.floating):
        return p
    return jnp.where(jnp.abs(p) <= jnp.inf, p, p + p)


def quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """``a / b`` for float32 or float64, rounded to nearest, however the device divides.

    XLA turns a division by a broadcast value into a multiplication by its reciprocal, and divides
    float32 on a GPU with an error of up to 2 units in the last place. Here the device's quotient of
    the significands is mended by its remainder, in integers. What is subnormal counts as zero.
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
    # The first bit is 1; then one for each of the fraction, and one more to round by. The device
    # may be off by 4 units in the last place. A remainder is small, so that it is right modulo
    # the word, where the products themselves are not.
    near = jax.lax.convert_element_type(m, a.dtype) / jax.lax.convert_element_type(d, a.dtype)
    q = (near * (2 << fraction)).astype(word) - 16
    rest = (m << (fraction + 1)) - q * d
    for step in (4, 3, 2, 1, 0):
        part = d << step
        fits = rest >= part
        q = q + (fits.astype(word) << step)
        rest = jnp.where(fits, rest - part, rest)
    # Never halfway: a quotient of two numbers of one precision is no number of one bit more.
    rounded = (q >> 1) + (q & one)
    # A carry out of the fraction belongs in the exponent.
    packed = (exponent.astype(word) << fraction) + (rounded - lead)
    sign = (raw_a ^ raw_b) & (one << (bits - 1))
    infinity = jnp.array(top, word) << fraction
    packed = jnp.where((exponent >= top) | (packed >= infinity), infinity, packed)
    packed = jnp.where(exponent <= 0, jnp.array(0, word), packed)
    exact = jax.lax.bitcast_convert_type(sign | packed, a.dtype)
    ordinary = [(e > 0) & (e < top) for e in exponents]
    return jnp.where(ordinary[0] & ordinary[1], exact, a / b)


def convert(value: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Converts exactly as written.

    XLA may drop a rounding to a narrow float that a widening follows (xla_allow_excess_precision),
    also across this function's edge; a fence on the narrow side keeps it. (reduce_precision would
    too, but flushes the subnormals of float16.)
    """
    if value.dtype == dtype:
        return value
    if accumulator(value.dtype) != value.dtype:
        value = fence(value)
    out = value.astype(dtype)
    return fence(out) if accumulator(dtype) != dtype else out


def by_parts(function: Callable[..., jax.Array], *values: jax.Array) -> jax.Array:
    """Applies a linear ``function`` of real arrays to complex ones, along a new leading axis.

    ``function`` takes each value with a leading axis that holds real and imaginary parts.
    """
    out = function(*(jnp.stack([value.real, value.imag]) for value in values))
    return jax.lax.complex(out[0], out[1])
