"""The orders, executable: a few lines of NumPy for each, to compare bits with.

An oracle has the name of its order in ``orders.toml`` and takes the numbers of the statement from
there. It is meant to be read, not to be fast. float16 and bfloat16 are computed in float32 and
rounded once, at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spec.loader import load

Array = npt.NDArray[Any]


def panel(initial: Array, index: Array, source: Array, combine: np.ufunc = np.add) -> Array:
    """Combines row ``index[i]`` of ``initial`` with ``source[i]``, in panel order.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]; indices outside [0, destinations) are dropped.
        source: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.

    Returns:
        Shape and dtype of ``initial``.
    """
    size = initial.shape[0]
    minimum = load().orders["panel"].parameters["minimum"]
    length = max(minimum, 1 << max(size - 1, 0).bit_length())
    total = _identity(initial.shape, initial.dtype, combine)
    for start in range(0, len(index), length):
        part = _identity(initial.shape, initial.dtype, combine)
        rows = index[start : start + length]
        kept = (rows >= 0) & (rows < size)
        values = source[start : start + length].astype(part.dtype)
        combine.at(part, rows[kept], values[kept])
        total = combine(total, part)
    return np.asarray(combine(initial.astype(total.dtype), total).astype(initial.dtype))


def blocked_scan(values: Array, combine: Callable[[Array, Array], Array] = np.add) -> Array:
    """Running folds along the first axis, in blocked order.

    Args:
        values: Shape [n, ...].
        combine: From what came earlier and what comes later to both: ``np.add``, ``np.multiply``
            for real numbers, ``complex_product`` or ``affine``.

    Returns:
        Shape and dtype of ``values``.
    """
    block = load().orders["blocked_scan"].parameters["block"]
    out = values.astype(_accumulator(values.dtype))
    carry = None
    for start in range(0, len(values), block):
        part = out[start : start + block]
        for i in range(1, len(part)):
            part[i] = combine(part[i - 1], part[i])
        total = part[-1].copy()
        if carry is not None:
            part[:] = combine(carry, part)
            total = combine(carry, total)
        carry = total
    return out.astype(values.dtype)


def complex_product(earlier: Array, later: Array) -> Array:
    """The product by four real ones, each rounded; NumPy's own may fuse them with the sums."""
    (a, b), (c, d) = (earlier.real, earlier.imag), (later.real, later.imag)
    out = np.empty(np.broadcast_shapes(earlier.shape, later.shape), earlier.dtype)
    out.real, out.imag = a * c - b * d, a * d + b * c
    return out


def affine(earlier: Array, later: Array) -> Array:
    """One after the other, maps from h to factor * h + term; the last axis holds these two."""
    times = complex_product if earlier.dtype.kind == "c" else np.multiply
    factor, term = later[..., 0], later[..., 1]
    both = times(earlier[..., 0], factor), times(earlier[..., 1], factor) + term
    return np.stack(np.broadcast_arrays(*both), axis=-1)


def window(values: Array, index: Array, weight: Array | None = None) -> Array:
    """Sums over windows along the first axis, in window order; compose it over dimensions.

    Args:
        values: Shape [n, ...].
        index: Position of each term of each window, and -1 for those it lacks; shape [m, terms].
        weight: What each term is multiplied by, of that shape.

    Returns:
        Shape [m, ...], of the dtype of ``values``; float16 and bfloat16 should be widened before
        the first dimension, and rounded after the last.
    """
    out = np.zeros((len(index), *values.shape[1:]), values.dtype)
    for m, places in enumerate(index):
        terms = [
            values[i] if weight is None else values[i] * weight[m, t].astype(values.dtype)
            for t, i in enumerate(places)
            if i >= 0
        ]
        if terms:
            out[m] = functools.reduce(np.add, terms)
    return out


def taps(terms: Array, *, image: bool = False) -> Array:
    """Sums over taps, in tap order, where a run's own sum is exact in every order.

    Args:
        terms: What each tap and channel contributes, shape [taps, channels, ...].
        image: Whether the image is what is computed, so that each tap is a run.

    Returns:
        Shape [...], of the dtype of ``terms``.
    """
    least = load().orders["taps"].parameters["terms"]
    run = 1 if image else -(-least // terms.shape[1])
    total = np.zeros(terms.shape[2:], terms.dtype)
    for start in range(0, len(terms), run):
        total = total + terms[start : start + run].sum(axis=(0, 1))
    return total


def steps(terms: Array) -> Array:
    """Sums over steps, in the order of steps, where a step's own sum is exact in every order.

    Args:
        terms: What each step adds, in the order in which they are taken, shape [steps, ...].

    Returns:
        Shape [...], of the dtype of ``terms``.
    """
    total = np.zeros(terms.shape[1:], terms.dtype)
    for term in terms[::-1]:
        total = total + term
    return total


def lowest_index(values: Array, k: int) -> Array:
    """Position of the k-th smallest along the first axis; of equal ones the lowest.

    Args:
        values: Shape [n, ...].
        k: From 1 to n.

    Returns:
        int64, shape of ``values`` without its first axis.
    """
    kth = np.sort(values, axis=0)[k - 1]
    equal = (values == kth) | (np.isnan(values) & np.isnan(kth))
    return np.asarray(np.argmax(equal, axis=0))


def stable_sort(values: Array, *, descending: bool = False) -> Array:
    """Positions of the elements in sorted order along the first axis.

    Args:
        values: Shape [n, ...].
        descending: Whether the greatest comes first.

    Returns:
        int64, shape of ``values``.
    """
    if not descending:
        return np.argsort(values, axis=0, kind="stable")
    return len(values) - 1 - np.argsort(values[::-1], axis=0, kind="stable")[::-1]


def most_frequent(values: Array) -> Array:
    """Position, along the first axis, of the value that occurs most often.

    Args:
        values: Shape [n, ...], n at least 1.

    Returns:
        int64, shape of ``values`` without its first axis.
    """
    out = np.zeros(values.shape[1:], np.int64)
    for column in np.ndindex(out.shape):
        line = values[(slice(None), *column)]
        _, first, count = np.unique(line, True, False, True, equal_nan=False)
        out[column] = first[np.argmax(count)]
    return out


def last_write(initial: Array, index: Array, source: Array) -> Array:
    """Writes ``source[i]`` to row ``index[i]`` of ``initial``, the last write winning.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]; indices outside [0, destinations) are dropped.
        source: Shape [n, ...].

    Returns:
        Shape and dtype of ``initial``.
    """
    out = initial.copy()
    for row, value in zip(index, source, strict=True):
        if 0 <= row < len(out):
            out[row] = value
    return out


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    # NumPy calls bfloat16 a void: only its size tells that it is a float narrower than 32 bits.
    narrow = dtype.itemsize < 4 and dtype.kind in "fV"
    return np.dtype(np.float32) if narrow else dtype


def _identity(shape: tuple[int, ...], dtype: np.dtype[Any], combine: np.ufunc = np.add) -> Array:
    wide = _accumulator(dtype)
    zero = -0.0 if wide.kind in "fc" else 0
    return np.full(shape, zero if combine is np.add else 1, wide)
