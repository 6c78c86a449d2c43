"""Oracle of the blocked scan, and the combines that it takes beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spec.loader import load
from spec.oracles._numerics import Array, accumulator


def blocked_scan(values: Array, combine: Callable[[Array, Array], Array] = np.add) -> Array:
    """Returns the running folds along the first axis, in blocked order.

    Args:
        values: Shape [n, ...].
        combine: Combines an earlier value with a later one: ``np.add``, ``np.multiply`` for real
            numbers, ``complex_product`` or ``affine``.

    Returns:
        Shape and dtype of ``values``.
    """
    block = load().orders["blocked_scan"].parameters["block"]
    out = values.astype(accumulator(values.dtype))
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
    """Returns the product by its parts: four real products, each rounded before it is added.

    NumPy's own complex product may fuse the products with the sums.
    """
    (a, b), (c, d) = (earlier.real, earlier.imag), (later.real, later.imag)
    out = np.empty(np.broadcast_shapes(earlier.shape, later.shape), earlier.dtype)
    out.real, out.imag = a * c - b * d, a * d + b * c
    return out


def affine(earlier: Array, later: Array) -> Array:
    """Composes two maps from h to factor * h + term, the earlier one first.

    The last axis holds the factor and the term.
    """
    times = complex_product if earlier.dtype.kind == "c" else np.multiply
    factor, term = later[..., 0], later[..., 1]
    both = times(earlier[..., 0], factor), times(earlier[..., 1], factor) + term
    return np.stack(np.broadcast_arrays(*both), axis=-1)
