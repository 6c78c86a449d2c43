"""Eigenvalues and singular values by Jacobi rotations, in the spec's order ``rotations``.

A symmetric matrix becomes diagonal by rotations of two columns and the same two rows. The columns
of any other matrix become orthogonal by rotations of two columns (the one-sided method of
Hestenes); then the lengths of the columns are the singular values. A *round* rotates half as many
disjoint pairs as there are columns, in the parallel ordering of Brent and Luk (1985,
doi:10.1137/0906007). A *sweep* has each pair once. The state is two halves, and a round pairs equal
positions of them. After it, all columns but the first move on by one, around both halves::

    round 1     0 1 2       0 with 3, 1 with 4, 2 with 5
                3 4 5
    round 2     0 3 1       0 with 4, 3 with 5, 1 with 2
                4 5 2
    round 3     0 4 3       0 with 5, 4 with 2, 3 with 1
                5 2 1

The sweeps end with one that rotates nothing. A further sweep would change no bit, so that the
result of a matrix does not depend on the other matrices of a batch, which may need more sweeps.

All is computed in float64, with a rounding after each operation, and the results are rounded once.
Call the functions inside ``arithmetic.wide()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core import numerics
from impl._exact import arithmetic
from impl._exact.arithmetic import product, seal
from impl._exact.linear_algebra import decompositions
from impl._exact.linear_algebra.decompositions import indices, repeated, steps, transposed, widened

#: The greatest number of sweeps. Matrices of a usual size take up to ten.
_SWEEPS = 30
#: The greatest element off the diagonal that counts as zero, in a matrix of elements up to 1.
_SMALL = 2.0**-56
#: The greatest cosine of two columns that count as orthogonal.
_COSINE = 2.0**-48
#: The greatest squared length of a column that counts as zero, in a matrix of elements up to 1.
_SHORT = 2.0**-104

#: Rotates pairs of columns of a state: column i of the first half with column i of the second half.
#: Returns the state, and whether each pair was rotated.
_Round = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
#: A state, whether its last sweep rotated anything, and the number of sweeps.
_Carry = tuple[jax.Array, jax.Array, jax.Array]


def eigh(
    a: jax.Array, *, lower: bool, subset_by_index: Sequence[int] | None = None, **_: Any
) -> tuple[jax.Array, jax.Array]:
    """Returns eigenvectors and eigenvalues in ascending order, as ``jax.lax.linalg.eigh`` does.

    The sign of an eigenvector makes its first component of greatest magnitude positive. A matrix
    with a NaN or an infinity gives NaNs. One triangle of the matrices is read.
    """
    dtype, n = a.dtype, a.shape[-1]
    first, last = subset_by_index or (0, n)
    if not a.size:
        return a, lax.full(a.shape[:-1], 0, dtype)
    rows, columns = indices(a, -2), indices(a, -1)
    is_read = lax.ge(rows, columns) if lower else lax.le(rows, columns)
    a = lax.select(is_read, a, transposed(a))
    a, is_finite, scale = _scaled(widened(a))
    a = _with_even_columns(a, rows=True)
    state = lax.concatenate([a, _identity(a.shape)], a.ndim - 2)
    state = lax.slice_in_dim(_swept(_eigh_round, state), 0, n, axis=a.ndim - 1)
    size = a.shape[-1]
    values = _diagonal(_rows(state, 0, n))
    vectors = _rows(state, size, size + n)
    values, vectors = _sorted_by_key(values, vectors)
    vectors = arithmetic.narrow(vectors, dtype)
    vectors = _finished(_negated(vectors, _is_negative(vectors)), is_finite)
    values = arithmetic.narrow(product(values, repeated(scale, values)), dtype)
    values = lax.squeeze(_finished(values, is_finite), (a.ndim - 2,))
    return (
        lax.slice_in_dim(vectors, first, last, axis=a.ndim - 1),
        lax.slice_in_dim(values, first, last, axis=a.ndim - 2),
    )


def svd(
    a: jax.Array,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: Sequence[int] | None = None,
    **_: Any,
) -> tuple[jax.Array, ...]:
    """Returns singular values in descending order, and vectors, as ``jax.lax.linalg.svd`` does.

    The sign of a vector of the shorter side makes its first component of greatest magnitude
    positive. A matrix with a NaN or an infinity gives NaNs.
    """
    dtype = a.dtype
    *batch, m, n = a.shape
    if m < n:
        values, *vectors = svd(
            transposed(a),
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
        )
        return values, *(transposed(each) for each in reversed(vectors))
    last_axis = a.ndim - 1
    if not a.size:
        u = lax.convert_element_type(_identity((*batch, m, m if full_matrices else n)), dtype)
        values = lax.full((*batch, n), 0, dtype)
        return (values, u, lax.full((*batch, n, n), 0, dtype)) if compute_uv else (values,)
    first, last = subset_by_index or (0, n)
    a, is_finite, scale = _scaled(widened(a))
    a = _with_even_columns(a, rows=False)
    if compute_uv:
        a = lax.concatenate([a, _identity((*batch, a.shape[-1], a.shape[-1]))], last_axis - 1)
    state = _swept(lambda state: _svd_round(state, m), a)
    state = lax.slice_in_dim(state, 0, n, axis=last_axis)
    columns = _rows(state, 0, m)
    lengths = seal(lax.sqrt(decompositions.column_sums(product(columns, columns))))
    lengths, state = _sorted_by_key(lengths, state, descending=True)
    values = arithmetic.narrow(product(lengths, repeated(scale, lengths)), dtype)
    values = lax.squeeze(_finished(values, is_finite), (last_axis - 1,))
    values = lax.slice_in_dim(values, first, last, axis=last_axis - 1)
    if not compute_uv:
        return (values,)
    right = arithmetic.narrow(_rows(state, m, m + n), dtype)
    negative = _is_negative(right)
    # The left vectors come from a QR decomposition, which is orthogonal also for zero columns. The
    # sign of each is the sign of the diagonal of the triangle.
    triangle, factors = decompositions.geqrf(_rows(state, 0, m))
    flipped = lax.ne(lax.lt(_diagonal(triangle), lax.full_like(lengths, 0)), negative)
    count = m if full_matrices else n
    more = [(0, 0, 0)] * (last_axis) + [(0, count - n, 0)]
    left = decompositions.householder_product(lax.pad(triangle, np.float64(0), more), factors)
    flipped = lax.pad(flipped, np.bool_(False), more)
    left = arithmetic.narrow(_negated(left, flipped), dtype)
    left, right = _finished(left, is_finite), _finished(_negated(right, negative), is_finite)
    if not full_matrices:
        left, right = (lax.slice_in_dim(x, first, last, axis=last_axis) for x in (left, right))
    return values, left, transposed(right)


def _eigh_round(state: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rotates the columns and rows of matrices, and the columns of the eigenvectors below them."""
    axis, n = state.ndim - 1, state.shape[-1]
    h = n // 2
    top, bottom = _rows(state, 0, h), _rows(state, h, n)
    (app, apq), (_, aqq) = ([_diagonal(half) for half in _halves(rows)] for rows in (top, bottom))
    rotated = lax.gt(lax.abs(apq), lax.full_like(apq, _SMALL))
    rotation = (*_rotation(app, aqq, apq, rotated), rotated)
    state = lax.concatenate(_rotated(*_halves(state), *rotation), axis)
    across = [transposed(each) for each in rotation]
    upper, lower = _rotated(_rows(state, 0, h), _rows(state, h, n), *across)
    # A rotation makes the two elements of its pair zero, but for rounding errors.
    is_pair = lax.eq(_identity((*state.shape[:-2], h, h)), 1.0)
    is_pair = lax.bitwise_and(is_pair, repeated(rotated, is_pair))
    zero = lax.full(is_pair.shape, 0, np.float64)
    (pp, pq), (qp, qq) = _halves(upper), _halves(lower)
    upper = lax.concatenate([pp, lax.select(is_pair, zero, pq)], axis)
    lower = lax.concatenate([lax.select(is_pair, zero, qp), qq], axis)
    upper, lower = _paired_anew(upper, lower, axis - 1)
    state = lax.concatenate([upper, lower, _rows(state, n, state.shape[-2])], axis - 1)
    return lax.concatenate(_paired_anew(*_halves(state), axis), axis), rotated


def _svd_round(state: jax.Array, m: int) -> tuple[jax.Array, jax.Array]:
    """Rotates the columns of matrices, so that their first ``m`` rows become orthogonal."""
    axis = state.ndim - 1
    p, q = _halves(_rows(state, 0, m))
    sums = decompositions.column_sums(
        lax.concatenate([product(p, p), product(q, q), product(p, q)], axis)
    )
    pp, qq, pq = (
        lax.slice_in_dim(sums, start, start + p.shape[-1], axis=axis)
        for start in range(0, sums.shape[-1], p.shape[-1])
    )
    lengths = product(seal(lax.sqrt(pp)), seal(lax.sqrt(qq)))
    least = lax.full_like(pq, _SHORT)
    rotated = lax.gt(lax.abs(pq), product(lengths, lax.full_like(pq, _COSINE)))
    rotated = lax.bitwise_and(rotated, lax.gt(lax.min(pp, qq), least))
    pairs = _rotated(*_halves(state), *_rotation(pp, qq, pq, rotated), rotated)
    return lax.concatenate(_paired_anew(*pairs, axis), axis), rotated


def _swept(rotate: _Round, state: jax.Array) -> jax.Array:
    """Returns a state after sweeps of rounds, the last of which rotates nothing."""
    rounds = state.shape[-1] - 1

    def goes_on(carry: _Carry) -> jax.Array:
        return lax.bitwise_and(carry[1], lax.lt(carry[2], lax.full_like(carry[2], _SWEEPS)))

    def sweep(carry: _Carry) -> _Carry:
        def one(_: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            state, rotated = rotate(carry[0])
            return state, lax.bitwise_or(carry[1], rotated)

        none = lax.full((*state.shape[:-2], 1, state.shape[-1] // 2), False)
        last, rotated = steps(rounds, one, (carry[0], none))
        any_rotated = lax.reduce_or(rotated, tuple(range(rotated.ndim)))
        return last, any_rotated, lax.add(carry[2], lax.full_like(carry[2], 1))

    start = state, lax.full((), True), lax.full((), 0, np.int32)
    return lax.while_loop(goes_on, sweep, start)[0]


def _rotation(
    pp: jax.Array, qq: jax.Array, pq: jax.Array, rotated: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the cosines and sines that make the matrices [[pp, pq], [pq, qq]] diagonal.

    Of the two angles, the smaller one is taken, whose tangent is pq / (d +- sqrt(d d + pq pq)) for
    d = (qq - pp) / 2, with the sign of d (Golub and Van Loan, *Matrix Computations*, 4th edition,
    2013, section 8.5.2). Pairs that are not rotated have undefined values.
    """
    half = product(lax.sub(qq, pp), lax.full_like(pq, 0.5))
    root = seal(lax.sqrt(lax.add(product(half, half), product(pq, pq))))
    below = lax.add(lax.abs(half), root)
    below = lax.select(lax.lt(half, lax.full_like(half, 0)), lax.neg(below), below)
    one = lax.full_like(pq, 1)
    tangent = numerics.quotient(pq, lax.select(rotated, below, one))
    cosine = numerics.quotient(one, seal(lax.sqrt(lax.add(one, product(tangent, tangent)))))
    return cosine, product(tangent, cosine)


def _rotated(
    p: jax.Array, q: jax.Array, cosine: jax.Array, sine: jax.Array, rotated: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns pairs of columns or rows after their rotations, where they are rotated."""
    c, s, where = (repeated(each, p) for each in (cosine, sine, rotated))
    first = lax.sub(product(c, p), product(s, q))
    second = lax.add(product(s, p), product(c, q))
    return lax.select(where, first, p), lax.select(where, second, q)


def _paired_anew(p: jax.Array, q: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Returns halves in the order of the next round: all but the first index move on by one."""
    h = p.shape[axis]
    if h == 1:
        return p, q

    def part(x: jax.Array, start: int, stop: int) -> jax.Array:
        return lax.slice_in_dim(x, start, stop, axis=axis)

    return (
        lax.concatenate([part(p, 0, 1), part(q, 0, 1), part(p, 1, h - 1)], axis),
        lax.concatenate([part(q, 1, h), part(p, h - 1, h)], axis),
    )


def _scaled(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns matrices scaled to elements up to 1, whether each was finite, and inverse scales."""
    axes = (a.ndim - 2, a.ndim - 1)
    is_finite = lax.expand_dims(lax.reduce_and(lax.is_finite(a), axes), axes)
    a = lax.select(repeated(is_finite, a), a, lax.full_like(a, 0))
    most = lax.expand_dims(lax.reduce_max(lax.abs(a), axes), axes)
    exponent = lax.clamp(np.int32(-1021), arithmetic.exponent_above(most), np.int32(1022))
    down, up = (arithmetic.power_of_two(each) for each in (lax.neg(exponent), exponent))
    return product(a, repeated(down, a)), is_finite, up


def _with_even_columns(a: jax.Array, *, rows: bool) -> jax.Array:
    """Returns matrices with an even number of columns, by a last column of zeros if need be."""
    odd = a.shape[-1] % 2
    more = [(0, 0, 0)] * (a.ndim - 2) + [(0, odd if rows else 0, 0), (0, odd, 0)]
    return lax.pad(a, np.float64(0), more)


def _sorted_by_key(
    keys: jax.Array, columns: jax.Array, *, descending: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Returns keys and columns in the order of the keys; equal keys keep their order."""
    sign = lax.neg if descending else lambda x: x
    axis = keys.ndim - 1
    order = repeated(sign(keys), columns)
    _, columns = lax.sort((order, columns), dimension=axis, is_stable=True, num_keys=1)
    return sign(lax.sort(sign(keys), dimension=axis)), columns


def _is_negative(vectors: jax.Array) -> jax.Array:
    """Returns, for each column, whether its first component of greatest magnitude is negative."""
    axis = vectors.ndim - 2
    magnitude, at = lax.abs(vectors), indices(vectors, -2)
    best = repeated(lax.expand_dims(lax.reduce_max(magnitude, (axis,)), (axis,)), vectors)
    first = lax.select(lax.eq(magnitude, best), at, lax.full_like(at, at.shape[axis]))
    first = repeated(lax.expand_dims(lax.reduce_min(first, (axis,)), (axis,)), at)
    is_less = lax.lt(vectors, lax.full_like(vectors, 0))
    has_sign = lax.reduce_or(lax.bitwise_and(lax.eq(at, first), is_less), (axis,))
    return lax.expand_dims(has_sign, (axis,))


def _negated(columns: jax.Array, where: jax.Array) -> jax.Array:
    return lax.select(repeated(where, columns), lax.neg(columns), columns)


def _finished(result: jax.Array, is_finite: jax.Array) -> jax.Array:
    """Returns a result with +0 for -0, and NaN where a matrix was not finite.

    A zero may be a subnormal number that a device flushed, so its sign would depend on the device.
    """
    zero = lax.full_like(result, 0)
    result = lax.select(lax.eq(result, zero), zero, result)
    return lax.select(repeated(is_finite, result), result, lax.full_like(result, np.nan))


def _identity(shape: Sequence[int]) -> jax.Array:
    rows, columns = (lax.broadcasted_iota(np.int32, shape, len(shape) + k) for k in (-2, -1))
    return lax.convert_element_type(lax.eq(rows, columns), np.float64)


def _diagonal(a: jax.Array) -> jax.Array:
    """Returns the diagonals of matrices, no wider than high, as matrices of one row."""
    *batch, _, n = a.shape
    flat = lax.reshape(_rows(a, 0, n), (*batch, 1, n * n))
    return lax.slice_in_dim(flat, 0, None, n + 1, axis=len(batch) + 1)


def _rows(a: jax.Array, start: int, stop: int) -> jax.Array:
    return lax.slice_in_dim(a, start, stop, axis=a.ndim - 2)


def _halves(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    h, axis = a.shape[-1] // 2, a.ndim - 1
    return lax.slice_in_dim(a, 0, h, axis=axis), lax.slice_in_dim(a, h, None, axis=axis)
