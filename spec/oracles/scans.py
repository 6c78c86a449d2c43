"""Oracles of the running orders, and combining functions that NumPy does not have."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from spec.loader import load
from spec.oracles._numerics import Array, accumulator
from spec.oracles.nearest import flushed, rounded_once


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
    totals = []
    for start in range(0, len(out), block):
        part = out[start : start + block]
        for i in range(1, len(part)):
            part[i] = combine(part[i - 1], part[i])
        totals.append(part[-1].copy())
    for number, carry in enumerate(_carries(totals, combine, block)):
        if carry is not None:
            part = out[number * block : (number + 1) * block]
            part[:] = combine(carry, part)
    return out.astype(values.dtype)


def _carries(
    members: list[Array], combine: Callable[[Array, Array], Array], block: int
) -> list[Array | None]:
    """Returns the carry of each member of a level: the members before it, combined, or None."""
    befores: list[Array | None] = []
    starts = range(0, len(members), block)
    for start in starts:
        before = None
        for member in members[start : start + block]:
            befores.append(before)
            before = member if before is None else combine(before, member)
    if len(starts) < 2:
        return befores
    totals = [functools.reduce(combine, members[start : start + block]) for start in starts]
    above = _carries(totals, combine, block)
    carries: list[Array | None] = []
    for position, before in enumerate(befores):
        carry = above[position // block]
        if carry is not None and before is not None:
            carries.append(combine(carry, before))
        else:
            carries.append(before if carry is None else carry)
    return carries


def doubling(factors: Array) -> Array:
    """Returns the running products along the first axis, of the shape and dtype of ``factors``."""
    # The exponents have no limit. Zeros, infinities and NaNs have the exponent 0.
    significand, exponent = np.frexp(flushed(factors))
    distance = 1
    while distance < len(factors):
        with np.errstate(invalid="ignore"):
            products = significand[distance:] * significand[:-distance]
        significand[distance:], more = np.frexp(products)
        exponent[distance:] = exponent[distance:] + exponent[:-distance] + more
        distance *= 2
    out = np.zeros_like(factors)
    for at in np.ndindex(factors.shape):
        value = float(significand[at])
        if math.isfinite(value):
            exact = Fraction(value) * Fraction(2) ** int(exponent[at])
            value = math.copysign(rounded_once(exact, factors.dtype), value)
        out[at] = value
    return out


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
