"""Orthogonal decompositions by Householder reflections, with the same bits on every device.

A reflection is I - tau v v', with v 1 at its pivot (Golub and Van Loan, *Matrix Computations*, 4th
edition, 2013, section 5.1; LAPACK's ``dlarfg`` and ``dgeqr2``). A sum over a column adds one half
of the terms to the other half, until one term is left. These are additions of whole arrays, which
no device reorders. All is computed in float64. Call the functions inside ``arithmetic.wide()``.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core import numerics
from impl._exact import arithmetic
from impl._exact.linear_algebra.triangular import (
    column,
    indices,
    minus_outer_product,
    repeated,
    row,
    steps,
    widened,
)


def column_sums(terms: jax.Array) -> jax.Array:
    """Returns the sums of columns, as matrices of one row, by adding halves."""
    axis = terms.ndim - 2
    while terms.shape[axis] > 1:
        half = terms.shape[axis] // 2
        first, second, rest = (
            lax.slice_in_dim(terms, start, stop, axis=axis)
            for start, stop in ((0, half), (half, 2 * half), (2 * half, None))
        )
        terms = lax.concatenate([arithmetic.seal(lax.add(first, second)), rest], axis)
    return terms


def _reflected(a: jax.Array, v: jax.Array, tau: jax.Array, where: jax.Array) -> jax.Array:
    """Returns the reflection of a matrix, a - v (tau v' a), where ``where`` is true."""
    dots = column_sums(arithmetic.product(repeated(v, a), a))
    scaled_dots = arithmetic.product(dots, repeated(tau, dots))
    return minus_outer_product(a, v, scaled_dots, where)


def geqrf(a: jax.Array, **_: Any) -> tuple[jax.Array, jax.Array]:
    """Returns the triangle and the reflections of matrices, as ``jax.lax.linalg.geqrf`` does.

    Args:
        a: Matrices, float32 or float64.

    Returns:
        Matrices of the shape of ``a``, and a factor for each reflection.
    """
    dtype = a.dtype
    *batch, m, n = a.shape
    least = min(m, n)
    factors = lax.full((*batch, least), 0, np.float64)
    if not a.size:
        return a, lax.convert_element_type(factors, dtype)
    a, factors = steps(least, _reflection, (widened(a), factors))
    return arithmetic.narrow(a, dtype), arithmetic.narrow(factors, dtype)


def _reflection(k: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Reflects a matrix so that column ``k`` is zero below its diagonal, as ``dlarfg`` does."""
    a, factors = state
    x = column(a, k)
    at = indices(x, -2)
    zero, one = lax.full_like(x, 0), lax.full_like(x, 1)
    below = lax.select(lax.gt(at, k), x, zero)
    rest = column_sums(arithmetic.product(below, below))
    first = row(x, k)
    length = arithmetic.seal(lax.sqrt(lax.add(arithmetic.product(first, first), rest)))
    beta = lax.select(lax.lt(first, lax.full_like(first, 0)), length, lax.neg(length))
    # A column that is zero below its diagonal needs no reflection: tau is 0.
    is_zero = lax.eq(rest, lax.full_like(rest, 0))
    unit = lax.full_like(beta, 1)
    divisor = lax.select(is_zero, unit, beta)
    tau = numerics.quotient(lax.sub(divisor, first), divisor)
    tau = lax.select(is_zero, lax.full_like(tau, 0), tau)
    scale = lax.select(is_zero, unit, lax.sub(first, divisor))
    v = numerics.quotient(below, repeated(scale, below))
    v = lax.select(lax.eq(at, k), one, v)
    a = _reflected(a, v, tau, lax.bitwise_and(lax.ge(indices(a, -2), k), lax.gt(indices(a, -1), k)))
    beta = lax.select(is_zero, first, beta)
    stored = lax.select(lax.eq(at, k), repeated(beta, x), v)
    stored = lax.select(lax.lt(at, k), x, stored)
    a = lax.select(lax.eq(indices(a, -1), k), repeated(stored, a), a)
    tau = lax.reshape(tau, (*factors.shape[:-1], 1))
    return a, lax.dynamic_update_slice_in_dim(factors, tau, k, factors.ndim - 1)


def householder_product(a: jax.Array, taus: jax.Array, **_: Any) -> jax.Array:
    """Returns the products of reflections, as ``jax.lax.linalg.householder_product`` does.

    Args:
        a: Matrices whose columns have the reflections below the diagonal.
        taus: The factor of each reflection.
    """
    dtype, count = a.dtype, taus.shape[-1]
    if not a.size:
        return a
    a, taus = widened(a), lax.expand_dims(widened(taus), (taus.ndim - 1,))
    rows = indices(a, -2)
    identity = lax.convert_element_type(lax.eq(rows, indices(a, -1)), np.float64)

    def step(i: jax.Array, q: jax.Array) -> jax.Array:
        k = lax.sub(lax.full_like(i, count - 1), i)
        return _reflected(q, _vector(a, k), column(taus, k), lax.ge(rows, k))

    return arithmetic.narrow(steps(count, step, identity), dtype)


def _vector(a: jax.Array, k: jax.Array) -> jax.Array:
    """Returns the vector of a reflection, stored below the diagonal of column ``k``."""
    x = column(a, k)
    at = indices(x, -2)
    v = lax.select(lax.gt(at, k), x, lax.full_like(x, 0))
    return lax.select(lax.eq(at, k), lax.full_like(x, 1), v)


def ormqr(a: jax.Array, taus: jax.Array, c: jax.Array, *, left: bool, transpose: bool) -> jax.Array:
    """Returns q c, or c q, for the product q of reflections, as ``jax.lax.linalg.ormqr`` does.

    Args:
        a: Matrices whose columns have the reflections below the diagonal.
        taus: The factor of each reflection.
        c: The other matrices.
        left: Whether q is on the left of ``c``.
        transpose: Whether q is transposed.
    """
    if not left:
        turned = (*range(c.ndim - 2), c.ndim - 1, c.ndim - 2)
        c = ormqr(a, taus, lax.transpose(c, turned), left=True, transpose=not transpose)
        return lax.transpose(c, turned)
    dtype, count = c.dtype, taus.shape[-1]
    if not c.size or not count:
        return c
    a, c = widened(a), widened(c)
    taus = lax.expand_dims(widened(taus), (taus.ndim - 1,))
    everywhere = lax.full_like(c, True, dtype=bool)

    def step(i: jax.Array, c: jax.Array) -> jax.Array:
        k = i if transpose else lax.sub(lax.full_like(i, count - 1), i)
        return _reflected(c, _vector(a, k), column(taus, k), everywhere)

    return arithmetic.narrow(steps(count, step, c), dtype)
