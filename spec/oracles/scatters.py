"""Oracles of the orders in which a scatter combines or writes."""

from __future__ import annotations

import numpy as np

from spec.loader import load
from spec.oracles._numerics import Array, accumulator, identity
from spec.oracles.nearest import nearest_scatter


def panel(initial: Array, index: Array, source: Array, combine: np.ufunc = np.add) -> Array:
    """Combines row ``index[i]`` of ``initial`` with ``source[i]``, in panel order.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.

    Returns:
        Shape and dtype of ``initial``.
    """
    size = initial.shape[0]
    minimum = load().orders["panel"].parameters["minimum"]
    length = max(minimum, 1 << max(size - 1, 0).bit_length())
    total = identity(initial.shape, initial.dtype, combine)
    for start in range(0, len(index), length):
        part = identity(initial.shape, initial.dtype, combine)
        rows = index[start : start + length]
        inside = (rows >= 0) & (rows < size)
        values = source[start : start + length].astype(part.dtype)
        combine.at(part, rows[inside], values[inside])
        total = combine(total, part)
    return np.asarray(combine(initial.astype(total.dtype), total).astype(initial.dtype))


def source(initial: Array, index: Array, source: Array, combine: np.ufunc = np.add) -> Array:
    """Combines row ``index[i]`` of ``initial`` with ``source[i]``, in the order of the source.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.

    Returns:
        Shape and dtype of ``initial``.
    """
    out = initial.astype(accumulator(initial.dtype))
    inside = (index >= 0) & (index < len(out))
    combine.at(out, index[inside], source[inside].astype(out.dtype))
    return np.asarray(out.astype(initial.dtype))


def scattered(
    initial: Array,
    index: Array,
    source_rows: Array,
    combine: np.ufunc = np.add,
    *,
    serial: bool,
) -> Array:
    """Combines contributions in the order of the rows for a device.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source_rows: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.
        serial: Whether the device is serial, and so takes the order of the source.

    Returns:
        Shape and dtype of ``initial``.
    """
    if serial:
        return source(initial, index, source_rows, combine)
    if combine is np.add:
        return nearest_scatter(initial, index, source_rows)
    return panel(initial, index, source_rows, combine)


def last_write(initial: Array, index: Array, source: Array) -> Array:
    """Writes ``source[i]`` to row ``index[i]`` of ``initial``; the last write to a row stays.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].

    Returns:
        Shape and dtype of ``initial``.
    """
    out = initial.copy()
    for row, value in zip(index, source, strict=True):
        if 0 <= row < len(out):
            out[row] = value
    return out
