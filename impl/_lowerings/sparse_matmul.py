"""Lowerings of products with a sparse matrix, and of products sampled at its elements.

Other names are SpMM and SDDMM. Both are sums over the stored elements ``e`` of a batch ``a``, at
``rows[a, e]`` and ``columns[a, e]``. An element whose row or column is out of range is left out.
Rows and columns are int32 or int64, shape [outer or 1, elements]. Narrow integers are computed in
32 bits, and a sum of complex products as four sums of real products.

The order of the sums of ``multiply`` is the scatter's; ``sample`` adds from left to right, or
exactly. For the elements 2, 3 and 5 in the rows 0, 1, 0 and the columns 1, 0, 0::

    multiply   dense [[1, 10], [2, 20]]     [2 * [2, 20] + 5 * [1, 10], 3 * [1, 10]]
                                            = [[9, 90], [3, 30]]
    sample     left [[1, 10], [2, 20]]      [1 * 4 + 10 * 1, 2 * 3 + 20 * 0, 1 * 3 + 10 * 0]
               right [[3, 0], [4, 1]]       = [14, 6, 3]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.axes import rows_of_each, within
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, additive_identities, convert, fence, product
from impl._core.shard_axes import vary_like
from impl._exact.sums import reduction
from impl._families.reductions import ADD
from impl._lowerings.scatter_accumulate import Scatter

#: The number of columns of a product that are unrolled; a loop goes through more.
_UNROLLED = 16
#: The number of elements of the rows that a CPU reads at once, so that they stay in the cache.
_ROW_ELEMENTS = 65536


def multiply(
    scatter: Scatter,
    data: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
    dense: jax.Array,
    *,
    size: int,
    **options: Any,
) -> jax.Array:
    """Adds the product of each element and its row of ``dense`` to the element's row of the result.

    Args:
        scatter: A lowering of ``impl._lowerings.scatter_accumulate``, which adds the products.
        data: The elements, shape [outer, elements].
        rows: The row of the result that each element contributes to.
        columns: The row of ``dense`` that each element multiplies.
        dense: Shape [outer, height, width].
        size: Number of rows of the result.
        **options: More arguments of ``scatter``.

    Returns:
        Shape [outer, size, width].
    """
    outer, height, width = dense.shape
    if data.size == 0 or dense.size == 0 or size == 0:
        return vary_like(jnp.zeros((outer, size, width), data.dtype), data, rows, columns, dense)

    def run(data: jax.Array, dense: jax.Array) -> jax.Array:
        row, source = _in_range(rows, columns, size, height, like=data)
        total = vary_like(jnp.zeros((data.shape[0], size, width), data.dtype), data, dense, row)
        return scatter(
            total, row[:, :, None], dense, reduction=ADD, weights=data, sources=source, **options
        )

    return _in_accumulator_dtype(run, data, dense)


def sample(
    left: jax.Array,
    right: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
    *,
    dot: Callable[..., jax.Array],
) -> jax.Array:
    """Computes for each element the dot product of its row of ``left`` and its row of ``right``.

    Args:
        left: Shape [outer, m, width].
        right: Shape [outer, k, width].
        rows: The row of ``left`` of each element.
        columns: The row of ``right`` of each element.
        dot: Computes the products of the elements, whose rows and columns are in range.

    Returns:
        Shape [outer, elements].
    """
    if left.size == 0 or right.size == 0 or rows.size == 0:
        empty = jnp.zeros((left.shape[0], rows.shape[1]), left.dtype)
        return vary_like(empty, left, right, rows, columns)

    def run(left: jax.Array, right: jax.Array) -> jax.Array:
        row, column = _in_range(rows, columns, left.shape[1], right.shape[1], like=left)
        inside = row < left.shape[1]
        indices = where(inside, row, 0), column
        return where(inside, dot(left, right, *indices), 0)

    return _in_accumulator_dtype(run, left, right)


def _sample_by_columns(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    """Reads a few columns of all elements at once, and adds their products from left to right."""

    def read(first: jax.Array | int, count: int) -> tuple[jax.Array, jax.Array]:
        slices = (jax.lax.dynamic_slice_in_dim(a, first, count, axis=2) for a in (left, right))
        return rows_of_each(next(slices), rows), rows_of_each(next(slices), columns)

    initial = vary_like(additive_identities(rows.shape, left.dtype), left, right, rows)
    return _added(read, left.shape[2], initial)


def _sample_by_rows(
    left: jax.Array,
    right: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
    *,
    add: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Reads whole rows of a few elements at once; ``add`` multiplies them and adds the products."""
    outer, elements = rows.shape
    chunk = min(elements, max(1, _ROW_ELEMENTS // (outer * left.shape[2])))
    initial = vary_like(jnp.zeros((outer, elements), left.dtype), left, right, rows)

    def step(i: jax.Array, out: jax.Array) -> jax.Array:
        # The last chunk starts earlier. It computes some elements again, with the same result.
        start = jnp.minimum(i * chunk, elements - chunk)
        indices = (jax.lax.dynamic_slice_in_dim(a, start, chunk, axis=1) for a in (rows, columns))
        total = add(rows_of_each(left, next(indices)), rows_of_each(right, next(indices)))
        return jax.lax.dynamic_update_slice_in_dim(out, total, start, axis=1)

    return jax.lax.fori_loop(0, -(-elements // chunk), step, initial)  # type: ignore[no-any-return]


def _from_left_to_right(a: jax.Array, b: jax.Array) -> jax.Array:
    def read(first: jax.Array | int, count: int) -> tuple[jax.Array, jax.Array]:
        slices = (jax.lax.dynamic_slice_in_dim(x, first, count, axis=2) for x in (a, b))
        return next(slices), next(slices)

    initial = vary_like(additive_identities(a.shape[:2], a.dtype), a, b)
    return _added(read, a.shape[2], initial)


def _exactly(a: jax.Array, b: jax.Array) -> jax.Array:
    return reduction.reduce_sum(product(a, b), (2,))


def _sample_exactly(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    return _exactly(rows_of_each(left, rows), rows_of_each(right, columns))


sample_cpu = functools.partial(
    sample, dot=functools.partial(_sample_by_rows, add=_from_left_to_right)
)
sample_xla = functools.partial(sample, dot=_sample_by_columns)
sample_exact_cpu = functools.partial(sample, dot=functools.partial(_sample_by_rows, add=_exactly))
sample_exact = functools.partial(sample, dot=_sample_exactly)


def _added(
    read: Callable[[jax.Array | int, int], tuple[jax.Array, jax.Array]],
    width: int,
    initial: jax.Array,
) -> jax.Array:
    """Adds products of columns of two arrays, from left to right.

    Args:
        read: Reads columns of both arrays: ``count`` of them from ``first`` on.
        width: The number of columns.
        initial: The identity of addition, of the shape of the result.
    """

    def add(first: jax.Array | int, count: int, total: jax.Array) -> jax.Array:
        a, b = read(first, count)
        terms = (product(a[..., c], b[..., c]) for c in range(count))
        return functools.reduce(jnp.add, terms, total)

    first = width % _UNROLLED
    total = add(0, first, initial) if first else initial
    if width >= _UNROLLED:

        def block(step: jax.Array, total: jax.Array) -> jax.Array:
            return add(first + step * _UNROLLED, _UNROLLED, total)

        total = jax.lax.fori_loop(0, width // _UNROLLED, block, total)
    # Without the fence XLA drops the addition to a constant 0, and with it the sign of 0 + -0.
    return fence(jnp.zeros_like(initial)) + total


def _in_range(
    rows: jax.Array, columns: jax.Array, m: int, k: int, *, like: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns rows, ``m`` for elements out of range, and columns that are all in range.

    Both are repeated to the length of the outer axis of ``like``.
    """
    row, column = within(rows, m), within(columns, k)
    row, column = where(column < k, row, m), where(column < k, column, 0)
    times = like.shape[0] // rows.shape[0]
    return jnp.tile(row, (times, 1)), jnp.tile(column, (times, 1))


def _in_accumulator_dtype(
    run: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """Applies the bilinear ``run`` in the accumulator dtype, and to complex numbers by parts."""
    if not jnp.issubdtype(a.dtype, jnp.complexfloating):
        dtype = accumulator(a.dtype)
        return convert(run(convert(a, dtype), convert(b, dtype)), a.dtype)
    # The outer axis holds real by real, imaginary by imaginary, real by imaginary, and imaginary by
    # real.
    out = run(
        jnp.concatenate([a.real, a.imag, a.real, a.imag]),
        jnp.concatenate([b.real, b.imag, b.imag, b.real]),
    )
    rr, ii, ri, ir = jnp.split(fence(out), 4)
    return jax.lax.complex(rr - ii, ri + ir)
