"""Products with a sparse matrix: every way to compute the two forms of their sum.

All are over stored elements ``e`` of a batch ``a``, at ``rows[a, e]`` and ``columns[a, e]``; one
whose row or column is out of range has no part in anything. Rows and columns are int32 or int64,
shape [outer or 1, elements]. Results of narrow integers are computed in 32 bits, and a sum of
complex products is made of four sums of real ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl._core.axes import rows_of_each, within
from impl._core.numerics import accumulator, additive_identities, convert, fence, product
from impl._core.reductions import ADD
from impl._core.shard_axes import vary_like
from impl._lowerings.scatter_accumulate import Scatter

#: How many columns of a product are written out; more are gone through by a loop.
_UNROLLED = 16
#: How many elements of rows a CPU reads at a time, so that they stay in the cache.
_READ = 65536


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
    """Each element times its row of ``dense``, added up where it stands, as ``scatter`` adds up.

    Args:
        scatter: One of those of ``impl._lowerings.scatter_accumulate``.
        data: The elements, shape [outer, elements].
        rows: Where the product goes.
        columns: Rows of ``dense``.
        dense: Shape [outer, height, width].
        size: How many rows the result has.
        **options: More for ``scatter``.

    Returns:
        Shape [outer, size, width].
    """
    outer, height, width = dense.shape
    if data.size == 0 or dense.size == 0 or size == 0:
        return vary_like(jnp.zeros((outer, size, width), data.dtype), data, rows, columns, dense)

    def run(data: jax.Array, dense: jax.Array) -> jax.Array:
        to, source = _placed(rows, columns, size, height, of=data)
        total = vary_like(jnp.zeros((data.shape[0], size, width), data.dtype), data, dense, to)
        return scatter(
            total, to[:, :, None], dense, reduction=ADD, weights=data, sources=source, **options
        )

    return _of_reals(run, data, dense)


def sample(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array, *, on_cpu: bool
) -> jax.Array:
    """Of each element, the sum of products of its row of ``left`` and its row of ``right``.

    The order is that of panels, with one destination, to which the columns contribute.

    Args:
        left: Shape [outer, m, width].
        right: Shape [outer, k, width].
        rows: Rows of ``left``.
        columns: Rows of ``right``.
        on_cpu: Whether to read the rows of a few elements after another, and else a few columns
            of all.

    Returns:
        Shape [outer, elements].
    """
    if left.size == 0 or right.size == 0 or rows.size == 0:
        none = jnp.zeros((left.shape[0], rows.shape[1]), left.dtype)
        return vary_like(none, left, right, rows, columns)

    def run(left: jax.Array, right: jax.Array) -> jax.Array:
        row, column = _placed(rows, columns, left.shape[1], right.shape[1], of=left)
        inside = row < left.shape[1]
        places = jnp.where(inside, row, 0), column
        total = (_sample_by_rows if on_cpu else _sample_by_columns)(left, right, *places)
        return jnp.where(inside, total, 0)

    return _of_reals(run, left, right)


sample_on_cpu = functools.partial(sample, on_cpu=True)
sample_at_once = functools.partial(sample, on_cpu=False)


def _sample_by_columns(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    def read(first: jax.Array | int, count: int) -> tuple[jax.Array, jax.Array]:
        own = (jax.lax.dynamic_slice_in_dim(a, first, count, axis=2) for a in (left, right))
        return rows_of_each(next(own), rows), rows_of_each(next(own), columns)

    return _dot(
        read,
        left.shape[2],
        vary_like(additive_identities(rows.shape, left.dtype), left, right, rows),
    )


def _sample_by_rows(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    outer, elements = rows.shape
    width = left.shape[2]
    chunk = min(elements, max(1, _READ // (outer * width)))
    none = vary_like(additive_identities((outer, elements), left.dtype), left, right, rows)

    def step(i: jax.Array, out: jax.Array) -> jax.Array:
        # At the end some are computed again, and are the same.
        start = jnp.minimum(i * chunk, elements - chunk)
        own = (jax.lax.dynamic_slice_in_dim(a, start, chunk, axis=1) for a in (rows, columns))
        whole = rows_of_each(left, next(own)), rows_of_each(right, next(own))

        def read(first: jax.Array | int, count: int) -> tuple[jax.Array, jax.Array]:
            a, b = (jax.lax.dynamic_slice_in_dim(a, first, count, axis=2) for a in whole)
            return a, b

        total = _dot(read, width, none[:, :chunk])
        return jax.lax.dynamic_update_slice_in_dim(out, total, start, axis=1)

    return jax.lax.fori_loop(0, -(-elements // chunk), step, none)  # type: ignore[no-any-return]


def _dot(
    read: Callable[[jax.Array | int, int], tuple[jax.Array, jax.Array]],
    width: int,
    none: jax.Array,
) -> jax.Array:
    """Sums of products of the columns that ``read(first, count)`` gives of both, by panels."""

    def add(first: jax.Array | int, count: int, total: jax.Array) -> jax.Array:
        a, b = read(first, count)
        terms = (product(a[..., c], b[..., c]) for c in range(count))
        return functools.reduce(jnp.add, terms, total)

    def panel(start: jax.Array | int, count: int, total: jax.Array) -> jax.Array:
        first = count % _UNROLLED
        part = add(start, first, none) if first else none
        if count >= _UNROLLED:

            def block(step: jax.Array, part: jax.Array) -> jax.Array:
                return add(start + first + step * _UNROLLED, _UNROLLED, part)

            part = jax.lax.fori_loop(0, count // _UNROLLED, block, part)
        return total + fence(part)

    length = spec.load().orders["panel"].parameters["minimum"]
    whole, rest = divmod(width, length)
    total = none
    if whole:
        total = jax.lax.fori_loop(0, whole, lambda i, t: panel(i * length, length, t), total)
    if rest:
        total = panel(whole * length, rest, total)
    # Fenced, or XLA drops the addition to a constant 0 and with it the sign of 0 + -0.
    return fence(jnp.zeros_like(none)) + total


def _placed(
    rows: jax.Array, columns: jax.Array, m: int, k: int, *, of: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Rows, those of elements out of range being ``m``, and columns that are all in range.

    Both for each of the outer axis of ``of``.
    """
    row, column = within(rows, m), within(columns, k)
    row, column = jnp.where(column < k, row, m), jnp.where(column < k, column, 0)
    times = of.shape[0] // rows.shape[0]
    return jnp.tile(row, (times, 1)), jnp.tile(column, (times, 1))


def _of_reals(
    run: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """``run``, which is linear in both, on numbers that it can multiply and add exactly as said."""
    if not jnp.issubdtype(a.dtype, jnp.complexfloating):
        wide = accumulator(a.dtype)
        return convert(run(convert(a, wide), convert(b, wide)), a.dtype)
    # One outer axis of: real by real, imaginary by imaginary, real by imaginary and the reverse.
    out = run(
        jnp.concatenate([a.real, a.imag, a.real, a.imag]),
        jnp.concatenate([b.real, b.imag, b.imag, b.real]),
    )
    rr, ii, ri, ir = jnp.split(fence(out), 4)
    return jax.lax.complex(rr - ii, ri + ir)
