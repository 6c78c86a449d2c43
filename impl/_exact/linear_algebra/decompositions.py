"""Triangular solutions, Cholesky, LU and QR decompositions, with the same bits on every device.

The algorithms of triangles are the outer-product forms of elimination (Golub and Van Loan, *Matrix
Computations*, 4th edition, 2013, chapters 3 and 4). Step k subtracts one product from each element
of the rest of the matrix, so that no sum has terms whose order a device could choose. A library
works on blocks, and adds their terms in an order of its own::

    a = 4 2      step 0: column 0 is 4 2, the pivot is 4, the factor 2 / 4 = 0.5
        2 3      rest: 3 - 0.5 * 2 = 2
    LU           4 2
                 0.5 2

QR is made of Householder's reflections, I - tau v v', with v 1 at its pivot (section 5.1; LAPACK's
``dlarfg`` and ``dgeqr2``). A sum over a column adds one half of the terms to the other half, until
one term is left. These are additions of whole arrays, which no device reorders.

The functions take float32 and float64. All steps are computed in float64, with a rounding after
each operation, and the results are rounded once. Call the functions inside ``arithmetic.wide()``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax import lax

from impl._core import numerics
from impl._exact import arithmetic
from impl._exact.arithmetic import at_least_float32

#: A matrix, its pivots and its permutation.
_Triangles: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]

_State = TypeVar("_State")


def widened(matrix: jax.Array) -> jax.Array:
    """Returns a matrix of floats as float64, in which subnormals of float32 count as zero."""
    return matrix if matrix.dtype == np.float64 else arithmetic.widen(at_least_float32(matrix))


def column(matrix: jax.Array, k: jax.Array) -> jax.Array:
    """Returns column ``k`` of each matrix, as a matrix of one column."""
    return lax.dynamic_slice_in_dim(matrix, k, 1, matrix.ndim - 1)


def row(matrix: jax.Array, k: jax.Array) -> jax.Array:
    """Returns row ``k`` of each matrix, as a matrix of one row."""
    return lax.dynamic_slice_in_dim(matrix, k, 1, matrix.ndim - 2)


def repeated(part: jax.Array, matrix: jax.Array) -> jax.Array:
    """Returns a column or a row repeated to the shape of ``matrix``."""
    return lax.broadcast_in_dim(part, matrix.shape, tuple(range(matrix.ndim)))


def indices(matrix: jax.Array, axis: int) -> jax.Array:
    """Returns the index of each element of a matrix along an axis, -2 or -1."""
    return lax.broadcasted_iota(np.int32, matrix.shape, matrix.ndim + axis)


def transposed(matrix: jax.Array) -> jax.Array:
    """Returns the transpose of each matrix."""
    return lax.transpose(matrix, (*range(matrix.ndim - 2), matrix.ndim - 1, matrix.ndim - 2))


def minus_outer_product(
    matrix: jax.Array, left: jax.Array, right: jax.Array, where: jax.Array
) -> jax.Array:
    """Returns ``matrix - left * right`` where ``where`` is true, of a column and a row."""
    step = arithmetic.product(repeated(left, matrix), repeated(right, matrix))
    return lax.select(where, lax.sub(matrix, step), matrix)


def steps(count: int, step: Callable[[jax.Array, _State], _State], state: _State) -> _State:
    """Returns the state after a number of steps, which take their index, int32, and a state."""

    def run(i: jax.Array, state: _State) -> _State:
        return step(lax.convert_element_type(i, np.int32), state)

    last: _State = lax.fori_loop(0, count, run, state)
    return last


def triangular_solve(
    a: jax.Array,
    b: jax.Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
    **_: Any,
) -> jax.Array:
    """Returns the solution of a triangular system, as ``jax.lax.linalg.triangular_solve`` does.

    Of the square matrices ``a``, only the triangle is read.
    """
    dtype, n = b.dtype, a.shape[-1]
    if transpose_a == left_side:
        a, lower = transposed(a), not lower
    x = b if left_side else transposed(b)
    if x.size:
        x = _eliminated(widened(a), widened(x), n, lower=lower, unit_diagonal=unit_diagonal)
    return arithmetic.narrow(x if left_side else transposed(x), dtype)


def _eliminated(
    a: jax.Array, b: jax.Array, n: int, *, lower: bool, unit_diagonal: bool
) -> jax.Array:
    """Returns the solution x of a x = b, by substitution row by row."""
    row_index = indices(b, -2)

    def step(i: jax.Array, x: jax.Array) -> jax.Array:
        k = i if lower else lax.sub(lax.full_like(i, n - 1), i)
        solved, factors = row(x, k), column(a, k)
        if not unit_diagonal:
            pivot = row(factors, k)
            solved = numerics.quotient(solved, repeated(pivot, solved))
        is_unsolved = lax.gt(row_index, k) if lower else lax.lt(row_index, k)
        x = minus_outer_product(x, factors, solved, is_unsolved)
        return lax.select(lax.eq(row_index, k), repeated(solved, x), x)

    return steps(n, step, b)


def cholesky(a: jax.Array, **_: Any) -> jax.Array:
    """Returns the lower triangles l with l l' = a; NaN where a matrix is not positive definite.

    The matrices are symmetric, and their lower triangles are read.
    """
    dtype, n = a.dtype, a.shape[-1]
    if not a.size:
        return a
    a = widened(a)
    rows, columns = indices(a, -2), indices(a, -1)

    def step(k: jax.Array, a: jax.Array) -> jax.Array:
        factors = column(a, k)
        root = repeated(arithmetic.seal(lax.sqrt(row(factors, k))), factors)
        is_below = lax.gt(indices(factors, -2), k)
        factors = lax.select(is_below, numerics.quotient(factors, root), root)
        is_rest = lax.bitwise_and(lax.gt(rows, k), lax.gt(columns, k))
        a = minus_outer_product(a, factors, transposed(factors), is_rest)
        is_column = lax.bitwise_and(lax.eq(columns, k), lax.ge(rows, k))
        return lax.select(is_column, repeated(factors, a), a)

    a = steps(n, step, a)
    # The root of a pivot is NaN if the pivot is negative, and 0 if it is zero.
    roots = lax.select(lax.eq(rows, columns), a, lax.full_like(a, 1))
    has_failed = lax.reduce_or(
        lax.bitwise_not(lax.gt(roots, lax.full_like(a, 0))), (a.ndim - 2, a.ndim - 1)
    )
    has_failed = lax.broadcast_in_dim(has_failed, a.shape, tuple(range(a.ndim - 2)))
    a = lax.select(has_failed, lax.full_like(a, np.nan), a)
    is_lower = lax.ge(rows, columns)
    return arithmetic.narrow(lax.select(is_lower, a, lax.full_like(a, 0)), dtype)


def lu(a: jax.Array, **_: Any) -> _Triangles:
    """Returns triangles, pivots and permutation of matrices, as ``jax.lax.linalg.lu`` does.

    Of several elements of the greatest magnitude in a column, the first is the pivot.
    """
    dtype = a.dtype
    *batch, m, n = a.shape
    least = min(m, n)
    pivots = lax.full((*batch, least), 0, np.int32)
    permutation = lax.broadcasted_iota(np.int32, (*batch, m), len(batch))
    if not a.size:
        return a, pivots, permutation
    a, pivots, permutation = steps(least, _eliminated_column, (widened(a), pivots, permutation))
    return arithmetic.narrow(a, dtype), pivots, permutation


def _eliminated_column(k: jax.Array, state: _Triangles) -> _Triangles:
    """Swaps the pivot of column ``k`` into row ``k``, and eliminates the column below it."""
    a, pivots, permutation = state
    last = a.ndim - 2
    below = column(a, k)
    at = indices(below, -2)
    magnitude = lax.select(lax.ge(at, k), lax.abs(below), lax.full_like(below, -1))
    best = lax.broadcast_in_dim(
        lax.reduce_max(magnitude, (last,)), magnitude.shape, (*range(last), last + 1)
    )
    is_best = lax.bitwise_and(lax.eq(magnitude, best), lax.ge(at, k))
    # No element equals the greatest magnitude NaN. Such a column swaps no rows.
    pivot_row = lax.select(is_best, at, lax.full_like(at, at.shape[last]))
    pivot_row = lax.reduce_min(pivot_row, (last,))
    has_pivot = lax.lt(pivot_row, lax.full_like(pivot_row, at.shape[last]))
    pivot_row = lax.select(has_pivot, pivot_row, lax.broadcast(k, pivot_row.shape))
    pivots = lax.dynamic_update_slice_in_dim(pivots, pivot_row, k, last)
    a = _swapped(a, k, pivot_row, last)
    permutation = _swapped(permutation, k, pivot_row, last)
    factors = column(a, k)
    pivot = repeated(row(factors, k), factors)
    is_divided = lax.bitwise_and(lax.gt(at, k), lax.ne(pivot, lax.full_like(pivot, 0)))
    factors = lax.select(is_divided, numerics.quotient(factors, pivot), factors)
    rows, columns = indices(a, -2), indices(a, -1)
    is_rest = lax.bitwise_and(lax.gt(rows, k), lax.gt(columns, k))
    a = minus_outer_product(a, factors, row(a, k), is_rest)
    return lax.select(lax.eq(columns, k), repeated(factors, a), a), pivots, permutation


def _swapped(array: jax.Array, k: jax.Array, other: jax.Array, axis: int) -> jax.Array:
    """Returns an array in which indices ``k`` and ``other`` of an axis are exchanged.

    There is another index for each combination of the leading axes.
    """
    leading = tuple(range(axis))
    other = lax.reshape(other, array.shape[:axis])
    at = lax.broadcasted_iota(np.int32, array.shape, axis)
    is_other = lax.eq(at, lax.broadcast_in_dim(other, array.shape, leading))
    first = lax.dynamic_slice_in_dim(array, k, 1, axis)
    # The sum picks the element at ``other``: all others are zero. Integers keep every bit pattern.
    word = array if array.dtype == np.int32 else lax.bitcast_convert_type(array, np.int64)
    zero = lax.full_like(word, 0)
    second = lax.reduce_sum(lax.select(is_other, word, zero), (axis,))
    second = lax.expand_dims(second, (axis,))
    if array.dtype != np.int32:
        second = lax.bitcast_convert_type(second, array.dtype)
    every = tuple(range(array.ndim))
    array = lax.select(is_other, lax.broadcast_in_dim(first, array.shape, every), array)
    return lax.select(lax.eq(at, k), lax.broadcast_in_dim(second, array.shape, every), array)


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

    The results are matrices of the shape of ``a``, and a factor for each reflection.
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

    The columns of ``a`` have the reflections below the diagonal, and ``taus`` the factor of each.
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

    The columns of ``a`` have the reflections below the diagonal, and ``taus`` the factor of each.
    With ``left``, q is on the left of ``c``; with ``transpose``, it is transposed.
    """
    if not left:
        return transposed(ormqr(a, taus, transposed(c), left=True, transpose=not transpose))
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
