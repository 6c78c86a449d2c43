"""Oracles of the order ``exact_product``, in integers of any size.

Factors are counted in units of the least subnormal float32, 2**-149, so that each is an integer,
and powers of two are bit lengths. A product of matrices is a convolution whose images have one
position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spec.loader import load
from spec.oracles._numerics import Array, nearest_even

#: The bits of a float, and the exponent of the least one, by dtype.
_FLOATS = {
    "float16": (11, -24),
    "bfloat16": (8, -133),
    "float32": (24, -149),
    "float64": (53, -1074),
}
#: The exponents of the least normal float32 and of the least float32.
_TINY, _LEAST = -126, -149


def exact_product(
    a: Array, b: Array, dtype: Any, *, highest: bool = False, narrow: bool | None = None
) -> Array:
    """Multiplies matrices in the order ``exact_product``.

    Args:
        a: Shape [..., m, n], of float32 or less.
        b: Shape [..., n, k].
        dtype: The dtype of the result.
        highest: Whether the precision is the highest.
        narrow: Whether both operands and the result have 16 bits or fewer; None asks their dtypes.

    Returns:
        Shape [..., m, k].
    """
    # Each row of a matrix is an image of one position, whose channels are contracted.
    window = np.zeros((1, 1), int)
    images, kernel = a[..., :, None, :, None], np.moveaxis(b, -1, -2)[..., :, :, None]
    narrow = _is_narrow(a.dtype, b.dtype, dtype) if narrow is None else narrow
    batch = [
        _convolution(image, weight[None], window, dtype, highest=highest, narrow=narrow)
        for image, weight in zip(_flat(images, 4), _flat(kernel, 3), strict=True)
    ]
    shape = (*a.shape[:-1], b.shape[-1])
    return np.array(batch, np.dtype(dtype)).reshape(shape)


def exact_convolution(
    images: Array,
    kernel: Array,
    window: Array,
    dtype: Any,
    *,
    highest: bool = False,
    narrow: bool | None = None,
) -> Array:
    """Convolves in the order ``exact_product``.

    Args:
        images: Shape [n, groups, channels, positions].
        kernel: Shape [groups, outputs, channels, taps].
        window: The position that each tap of each result reads, or -1 for none, of shape
            [results, taps].
        dtype: The dtype of the result.
        highest: Whether the precision is the highest.
        narrow: As in ``exact_product``.

    Returns:
        Shape [n, groups, outputs, results].
    """
    narrow = _is_narrow(images.dtype, kernel.dtype, dtype) if narrow is None else narrow
    finite = np.where(np.isfinite(kernel), kernel, kernel.dtype.type(0))
    out = _convolution(images, finite, window, dtype, highest=highest, narrow=narrow)
    out[:, ~np.isfinite(kernel).all((2, 3))] = np.nan
    return out


def _convolution(
    images: Array, kernel: Array, window: Array, dtype: Any, *, highest: bool, narrow: bool
) -> Array:
    """Convolves. A NaN or an infinity of the kernel counts in its own terms only."""
    terms = kernel.shape[2] * kernel.shape[3]
    images, kernel = _flushed(images), _flushed(kernel)
    out = np.zeros((*images.shape[:2], kernel.shape[1], len(window)), np.dtype(dtype))
    if terms == 0:
        return out
    level = _level(terms, highest=highest, narrow=narrow)
    p, q, exponent = _integers(images, kernel, window, level)
    left, right = _kinds(images, p), _kinds(kernel, q)
    for index in np.ndindex(*out.shape):
        n, g, o, r = index
        taps = np.flatnonzero(window[r] >= 0)
        at = window[r][taps]
        total = int((p[n, g][:, at] * q[g, o][:, taps]).sum())
        unit = int(exponent[n, g])
        with np.errstate(invalid="ignore", over="ignore"):
            special = (left[n, g][:, at] * right[g, o][:, taps]).sum()
            out[index] = _rounded(total, unit, dtype) if np.isfinite(special) else special
    return out


def _integers(
    images: Array, kernel: Array, window: Array, level: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Returns both factors as integers, and the exponent of the unit of each row's products."""
    p, q = _multiple(images), _multiple(kernel)
    if kernel.shape[2] * kernel.shape[3] == 1:
        return p, q, np.full(images.shape[:2], 2 * _LEAST)
    bits, most, least, total = level
    column = _length(q).max((1, 3), keepdims=True)  # The exponents of the scales, less _LEAST.
    p = p * np.where(column == 0, 0, 1 << column)[:, 0]
    row = _length(p).max((2, 3), keepdims=True)
    magnitude = np.where(p == 0, 0, _floor(abs(p), row - 14) + 3).sum(2)
    sums = [magnitude[..., taps[taps >= 0]].sum(-1) for taps in window]
    greatest = np.max(sums, axis=0)[..., None, None]
    by_sum = _length(greatest) + row - 14 - total
    row = np.maximum(np.minimum(by_sum, row - least), row - most)
    p, q = _nearest(p, row), _nearest(q, column - bits)
    return p, q, (row + 2 * _LEAST - bits)[..., 0, 0]


def _level(terms: int, *, highest: bool, narrow: bool) -> Sequence[int]:
    """Returns the bits of right integers, the most and least of left ones, and the bits of S."""
    bits = load().orders["exact_product"].parameters
    log = math.ceil(math.log2(terms))
    if highest:
        return bits["fine"], bits["row"], min(27, 47 - log), 38
    if narrow:
        return (bits["narrow"],) * 4
    return bits["coarse"], bits["row"], min(17, 39 - log), 30


def _is_narrow(*dtypes: Any) -> bool:
    return all(np.dtype(dtype).itemsize <= 2 for dtype in dtypes)


def _flat(value: Array, rank: int) -> Array:
    return value.reshape(-1, *value.shape[value.ndim - rank :])


def _flushed(value: Array) -> Array:
    value = value.astype(np.float64)
    return np.where(np.abs(value) < 2.0**_TINY, 0.0, value)


def _kinds(value: Array, integer: Array) -> Array:
    """Returns infinities and NaNs as they are, and the signs of all other factors once rounded."""
    signs = [float((x > 0) - (x < 0)) for x in integer.flat]
    return np.where(np.isfinite(value), np.reshape(signs, value.shape), value)


def _multiple(value: Array) -> Array:
    """Returns each element as a count of the least float32; 0 for an infinity or a NaN."""
    finite = np.where(np.isfinite(value), value, 0.0)
    return np.array([int(x * 2.0**-_LEAST) for x in finite.flat], object).reshape(value.shape)


def _length(value: Array) -> Array:
    return np.array([abs(x).bit_length() for x in value.flat], object).reshape(value.shape)


def _floor(value: Array, exponent: Array) -> Array:
    pairs = zip(value.flat, np.broadcast_to(exponent, value.shape).flat, strict=True)
    floors = [x >> e if e > 0 else x << -e for x, e in pairs]
    return np.array(floors, object).reshape(value.shape)


def _nearest(value: Array, exponent: Array) -> Array:
    """Returns the nearest multiples of 2**exponent, as counts; of two counts, the even one."""
    pairs = zip(value.flat, np.broadcast_to(exponent, value.shape).flat, strict=True)
    return np.array([nearest_even(x, e) for x, e in pairs], object).reshape(value.shape)


def _rounded(total: int, exponent: int, dtype: Any) -> float:
    """Returns ``total * 2**exponent`` rounded once to a dtype, as a Python float."""
    bits, least = _FLOATS[np.dtype(dtype).name]
    above = total.bit_length() + exponent
    if above <= _TINY and np.dtype(dtype) != np.float64:
        # A float32 is flushed after it is rounded. A float of 16 bits is flushed as a float32.
        is_normal = bits == 24 and nearest_even(abs(total), _TINY - 24 - exponent) == 1 << 24
        return math.copysign(2.0**_TINY if is_normal else 0.0, total)
    unit = max(above - bits, least)
    # A float64 holds the rounded value, also where it is too great for the dtype.
    return math.ldexp(nearest_even(total, unit - exponent), unit)
