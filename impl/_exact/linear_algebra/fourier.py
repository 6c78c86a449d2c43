"""Fourier transforms in the spec's order ``transform``, with the same bits on every device.

The algorithm is the mixed-radix transform of Cooley and Tukey (1965,
doi:10.1090/S0025-5718-1965-0178586-1), decimated in time, whose radices are the prime factors of
the length, the least first. A step combines ``factor`` lines, which are transforms of n elements,
to one transform of ``n * factor`` elements. A prime factor needs a table of its square, which is
large for a large factor::

    length 6 = 2 * 3                    lines, by the elements that they transform
    start                               [0] [1] [2] [3] [4] [5]
    radix 2                             [0 3] [1 4] [2 5]
    radix 3                             [0 1 2 3 4 5]

A step with n > 1 first multiplies lines by their *twiddle factors*. Roots of unity are computed
with integers (``roots_of_unity``). The parts of complex numbers are float64, each product is
rounded, and the results are rounded once. Call ``fft`` inside ``arithmetic.wide()``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._exact.arithmetic import product
from impl._exact.elementary.complex_numbers import Parts
from impl._exact.linear_algebra.decompositions import steps, widened

#: The fraction bits of the fixed-point integers that roots of unity are computed with.
_BITS = 160


def fft(x: jax.Array, *, fft_type: Any, fft_lengths: Sequence[int], **_: Any) -> jax.Array:
    """Returns the transforms of the last axes, as ``jax.lax.fft`` does: of 32 or 64 bits."""
    kind, dtype = fft_type.name, np.finfo(x.dtype).dtype
    is_inverse = kind in ("IFFT", "IRFFT")
    axes = range(x.ndim - len(fft_lengths), x.ndim)
    real, imaginary = _parts(x)
    # The last axis may have real numbers on one side: it is transformed first in a forward
    # transform, and last in an inverse one.
    for axis in axes if is_inverse else reversed(axes):
        n = fft_lengths[axis - x.ndim]
        if kind == "IRFFT" and axis == axes[-1]:
            imaginary = _mirrored(_without_ends(imaginary, n), n, -1)
            real = _mirrored(real, n, 1)
        real, imaginary = _transformed_along(axis, (real, imaginary), is_inverse=is_inverse)
        if kind == "RFFT" and axis == axes[-1]:
            real, imaginary = (
                lax.slice_in_dim(part, 0, n // 2 + 1, axis=axis) for part in (real, imaginary)
            )
    if is_inverse:
        scale = lax.full_like(real, 1 / math.prod(fft_lengths))
        real, imaginary = product(real, scale), product(imaginary, scale)
    if kind == "IRFFT":
        return arithmetic.narrow(real, dtype)
    return lax.complex(arithmetic.narrow(real, dtype), arithmetic.narrow(imaginary, dtype))


def prime_factors(n: int) -> list[int]:
    """Returns the prime factors of a positive integer, the least first."""
    factors, factor = [], 2
    while factor * factor <= n:
        if n % factor:
            factor += 1
        else:
            factors.append(factor)
            n //= factor
    return [*factors, n] if n > 1 else factors


@functools.cache
def roots_of_unity(n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns the cosines and sines of all multiples of a turn / n, each rounded once: [2, n].

    Libraries of machines differ in the last bits of cosines. So the first root is computed by its
    series in fixed-point integers of 160 fraction bits, and the other roots are its powers.
    """
    one, term, degree = 1 << _BITS, 1 << _BITS, 0
    angle, series = 2 * _pi() // n, [0, 0]
    while term:
        series[degree % 2] += -term if degree & 2 else term
        degree += 1
        term = (term * angle >> _BITS) // degree
    powers = [(one, 0)]
    for _ in range(n - 1):
        (x, y), (cosine, sine) = powers[-1], series
        powers.append(((x * cosine - y * sine) >> _BITS, (x * sine + y * cosine) >> _BITS))
    # A root that should be exactly zero has errors in its last bits.
    rounded = [[v / one if abs(v) >> _BITS // 2 else 0.0 for v in power] for power in powers]
    return np.array(rounded).T


def _pi() -> int:
    """Returns pi in fixed point, by Machin's formula: 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctangent(k: int) -> int:
        """Returns the arctangent of 1 / k, by its series."""
        term, total, odd = (1 << _BITS + 16) // k, 0, 1
        while term:
            total += term // odd if odd % 4 == 1 else -(term // odd)
            term, odd = term // (k * k), odd + 2
        return total

    return (16 * arctangent(5) - 4 * arctangent(239)) >> 16


def _parts(x: jax.Array) -> Parts:
    if not np.issubdtype(x.dtype, np.complexfloating):
        real = widened(x)
        imaginary = lax.full_like(real, 0)
    else:
        real, imaginary = widened(lax.real(x)), widened(lax.imag(x))
    # XLA would fold an addition of a zero that it knows, and keep the sign of -0. The selection
    # hides from XLA that the imaginary part is zero.
    return real, lax.select(lax.ne(real, real), real, imaginary)


def _without_ends(imaginary: jax.Array, n: int) -> jax.Array:
    """Returns imaginary parts of frequencies, with zeros at the real frequencies 0 and n / 2."""
    k = lax.broadcasted_iota(np.int32, imaginary.shape, imaginary.ndim - 1)
    is_end = lax.eq(lax.rem(lax.add(k, k), lax.full_like(k, n)), lax.full_like(k, 0))
    return lax.select(is_end, lax.full_like(imaginary, 0), imaginary)


def _mirrored(part: jax.Array, n: int, sign: int) -> jax.Array:
    """Returns the parts of all frequencies of real numbers, from the parts of the first half."""
    axis = part.ndim - 1
    part = lax.slice_in_dim(part, 0, n // 2 + 1, axis=axis)
    rest = lax.rev(lax.slice_in_dim(part, 1, (n + 1) // 2, axis=axis), (axis,))
    return lax.concatenate([part, rest if sign > 0 else lax.neg(rest)], axis)


def _transformed_along(axis: int, parts: Parts, *, is_inverse: bool) -> Parts:
    """Returns the transforms along an axis, not scaled."""
    n, rank = parts[0].shape[axis], parts[0].ndim
    if parts[0].size == 0:
        return parts
    order = (axis, *(other for other in range(rank) if other != axis))
    first, second = (lax.expand_dims(lax.transpose(part, order), (0,)) for part in parts)
    for factor in prime_factors(n):
        lines = _combined_lines((first, second), factor, is_inverse=is_inverse)
        # Without the fences, XLA for a CPU computes a step again in each fusion that reads it.
        first, second = (fence(part) for part in lines)
    back = np.argsort(order)
    real, imaginary = (lax.transpose(lax.squeeze(part, (1,)), back) for part in (first, second))
    return real, imaginary


def _combined_lines(parts: Parts, factor: int, *, is_inverse: bool) -> Parts:
    """Returns the lines of the next step, each combined from ``factor`` lines.

    Args:
        parts: Shape [n, lines, ...]. Line j has the transform of every ``lines``-th element from j.
        factor: The number of lines that are combined to one, a prime number.
        is_inverse: Whether roots of unity turn in the other direction.

    Returns:
        Shape [n * factor, lines // factor, ...].
    """
    n, lines, *others = parts[0].shape
    roots = roots_of_unity(n * factor) * np.array([[1], [1 if is_inverse else -1]])
    order = (1, 0, *range(2, 3 + len(others)))
    real, imaginary = (
        lax.transpose(lax.reshape(part, (n, factor, lines // factor, *others)), order)
        for part in parts
    )
    if n > 1:
        turns = np.arange(factor)[:, None] * np.arange(n)
        real, imaginary = _times_roots((real, imaginary), roots[:, turns], (0, 1))
    if factor == 2:
        halves = ((part[0], part[1]) for part in (real, imaginary))
        real, imaginary = (lax.concatenate([lax.add(a, b), lax.sub(a, b)], 0) for a, b in halves)
        return real, imaginary
    turns = np.arange(factor)[:, None] * np.arange(factor) % factor * n
    tables = [jnp.asarray(root) for root in roots[:, turns]]

    def member(v: jax.Array | int) -> Parts:
        whole = (lax.dynamic_index_in_dim(part, v, keepdims=True) for part in (real, imaginary))
        first, second = (lax.broadcast_in_dim(p, real.shape, range(real.ndim)) for p in whole)
        return first, second

    def added(i: jax.Array, total: Parts) -> Parts:
        v = lax.add(i, lax.full_like(i, 1))
        root = [lax.dynamic_index_in_dim(table, v, keepdims=False) for table in tables]
        term = _times_roots(member(v), root, (0,))
        return lax.add(total[0], term[0]), lax.add(total[1], term[1])

    shape = (n * factor, lines // factor, *others)
    first, second = steps(factor - 1, added, member(0))
    return lax.reshape(first, shape), lax.reshape(second, shape)


def _times_roots(parts: Parts, roots: Any, axes: Sequence[int]) -> Parts:
    """Returns products with roots of unity, which are repeated along all axes but ``axes``."""
    real, imaginary = parts
    cosine, sine = (lax.broadcast_in_dim(root, real.shape, axes) for root in roots)
    return (
        lax.sub(product(real, cosine), product(imaginary, sine)),
        lax.add(product(real, sine), product(imaginary, cosine)),
    )
