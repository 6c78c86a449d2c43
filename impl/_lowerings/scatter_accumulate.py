"""Lowerings of scatter-accumulate by atomics or by XLA, and functions that all its lowerings share.

Each lowering takes ``operand`` [outer, size, inner], ``indices`` [outer or 1, n, inner or 1] and
``updates`` [outer, n, inner], and returns the operand combined with the updates along the middle
axis. Updates whose index is outside [0, size) are dropped:

    operand [10, 20, 30], indices [2, 0, 2, 5], updates [1, 2, 3, 4], ADD   ->   [12, 20, 34]

With ``weights`` [outer, n], ``updates`` are [outer, n / k, inner] and ``indices`` [outer, n, 1].
Each update has k consecutive weights, and its product with each of them is a contribution. With
``sources`` [outer, n] too, there may be any number of updates: each contribution is the product of
a weight and of the update that its source names.

======================  =========================================================================
Module                  Lowerings
======================  =========================================================================
``_exact``              sums of floats in the order ``nearest``, on every platform
``_extreme``            minimum and maximum, as integers, in which no order shows
``_ordered``            products in the panel order, on a GPU or any other device (``_chains``)
``_cpu``                products in the panel order on a CPU; weighted updates in source order
this one                one pass in any order, for the atomic path and for integers
======================  =========================================================================
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from impl import _kernels
from impl._core.axes import at_least_32_bits, is_inside, rows_at, rows_of_each, within
from impl._core.jax_internals.releases import FLOAT32_HAS_ATOMIC_ADD
from impl._core.lax_functions import filled, number, where
from impl._core.native_scatter import natively
from impl._core.numerics import accumulator, by_parts, convert, product
from impl._families.reductions import ADD, Reduction
from impl._families.replicas import Replicas
from impl._kernels.launch import MAX_ELEMENTS, Launch, scheduled

Scatter = Callable[..., jax.Array]

#: The number of bytes of float16 and bfloat16, whose sums are rounded from a wider dtype.
_NARROW = 2


def in_accumulator_dtype(function: Scatter) -> Scatter:
    """Decorates ``function`` to compute in the accumulator dtype, and complex numbers by parts."""

    @functools.wraps(function)
    def run(
        operand: jax.Array,
        indices: jax.Array,
        updates: jax.Array,
        *,
        reduction: Reduction,
        **options: Any,
    ) -> jax.Array:
        options = {"reduction": reduction, **options}
        if updates.size == 0 or operand.size == 0:
            return operand
        if jnp.issubdtype(operand.dtype, jnp.complexfloating):
            if reduction is not ADD:
                raise NotImplementedError(f"complex numbers are not combined by {reduction.name!r}")
            return by_parts(lambda o, u: on_parts(run, o, indices, u, options), operand, updates)
        dtype = accumulator(operand.dtype)
        out = function(convert(operand, dtype), indices, convert(updates, dtype), **options)
        return convert(out, operand.dtype)

    return run


def on_parts(
    run: Scatter,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    options: dict[str, Any],
) -> jax.Array:
    """Runs a scatter on real and imaginary parts, which are merged into the outer axis."""
    if indices.shape[0] > 1:
        indices = jnp.concatenate([indices, indices])
    out = run(
        operand.reshape(2 * operand.shape[1], *operand.shape[2:]),
        indices,
        updates.reshape(2 * updates.shape[1], *updates.shape[2:]),
        **options,
    )
    return out.reshape(operand.shape)


@in_accumulator_dtype
def atomic_xla(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Calls XLA's own scatter: serial on a CPU, atomic on a GPU."""
    values = contributions(updates, weights, sources, 0, indices.shape[1])
    return xla_scatter(reduction, operand, indices, values)


def contributions(
    updates: jax.Array,
    weights: jax.Array | None,
    sources: jax.Array | None,
    start: jax.Array | int,
    count: int,
) -> jax.Array:
    """Returns ``count`` contributions from ``start`` on, shape [outer, count, inner].

    They are the updates, or the products of updates and weights.
    """
    if weights is None:
        if count == updates.shape[1]:
            return updates
        return lax.dynamic_slice_in_dim(updates, start, count, axis=1)
    factors = lax.dynamic_slice_in_dim(weights, start, count, axis=1)
    if sources is None:
        row = (start + jnp.arange(count, dtype=jnp.int32)) // (weights.shape[1] // updates.shape[1])
        return product(rows_at(updates, row), factors[:, :, None])
    rows = lax.dynamic_slice_in_dim(sources, start, count, axis=1)
    return product(rows_of_each(updates, rows), factors[:, :, None])


def flat_sources(sources: jax.Array | None, updates: jax.Array) -> jax.Array | None:
    """Returns ``sources`` as flat row numbers that count through the outer axis of ``updates``."""
    if sources is None:
        return None
    outer = jnp.arange(updates.shape[0], dtype=jnp.int32)[:, None]
    return (outer * updates.shape[1] + sources.astype(jnp.int32)).reshape(-1)


def xla_scatter(
    reduction: Reduction, operand: jax.Array, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Calls XLA's scatter, in the form that is the fastest on a CPU."""
    outer, size, inner = operand.shape
    scatter = getattr(lax, f"scatter_{reduction.name}")
    if indices.shape == (1, updates.shape[1], 1):
        rows = _unsigned(within(lax.squeeze(indices, (0, 2)), size))
        if outer == inner == 1:
            initial, terms = (lax.squeeze(each, (0, 2)) for each in (operand, updates))
            return lax.expand_dims(into_rows(scatter, initial, rows, terms, 0), (0, 2))
        if outer == 1:
            initial, terms = (lax.squeeze(each, (0,)) for each in (operand, updates))
            return lax.expand_dims(into_rows(scatter, initial, rows, terms, 0), (0,))
        return into_rows(scatter, operand, rows, updates, 1)
    if operand.size > MAX_ELEMENTS:
        index = jnp.broadcast_to(within(indices, size), updates.shape)
        return into_elements(reduction.name, operand, index, updates)
    # The scatter of a CPU is the fastest with flat offsets, of rows if possible, else of scalars.
    width = row_width(operand, indices)
    shape = (-1,) if width == 1 else (-1, width)
    initial, terms = (each.reshape(shape) for each in (operand, updates))
    rows = _unsigned(flat_offsets(operand, indices))
    return into_rows(scatter, initial, rows, terms, 0).reshape(operand.shape)


def _unsigned(rows: jax.Array) -> jax.Array:
    """Returns rows in a dtype that tells XLA that none is negative."""
    return lax.convert_element_type(rows, jnp.uint32)


def into_rows(
    scatter: Scatter, operand: jax.Array, rows: jax.Array, updates: jax.Array, axis: int
) -> jax.Array:
    """Combines the operand with updates at rows of an axis; a row beyond the last is dropped.

    This calls ``lax.scatter`` directly: ``x.at[rows]`` would add operations for negative rows,
    which cannot occur.

    Args:
        scatter: JAX's function for the reduction, such as ``lax.scatter_add``.
        operand: Any array.
        rows: Shape [n].
        updates: The shape of ``operand``, except for the length n along the axis.
        axis: The axis.
    """
    windows = tuple(each for each in range(operand.ndim) if each != axis)
    numbers = lax.ScatterDimensionNumbers(windows, (axis,), (axis,))
    function = functools.partial(scatter, dimension_numbers=numbers, mode="drop")
    out: jax.Array = natively(function, operand, lax.expand_dims(rows, (1,)), updates)
    return out


def into_elements(
    method: str, operand: jax.Array, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Combines elements of an operand with too many of them for flat offsets of 32 bits.

    Args:
        method: The name of a method of ``jax.numpy.ndarray.at[...]``.
        operand: Shape [outer, size, inner].
        indices: Positions along the middle axis, in the shape of ``updates``.
        updates: Shape [outer, n, inner].
    """

    def scatter(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        a = jnp.arange(operand.shape[0])[:, None, None]
        b = jnp.arange(operand.shape[2])[None, None, :]
        combine = getattr(operand.at[a, indices, b], method)
        return combine(updates, mode="drop")  # type: ignore[no-any-return]

    out: jax.Array = natively(scatter, operand, indices, updates)
    return out


def row_width(operand: jax.Array, indices: jax.Array) -> int:
    """Returns the number of adjacent elements of the operand that share an index."""
    return operand.shape[2] if indices.shape[2] == 1 else 1


def flat_offsets(operand: jax.Array, indices: jax.Array) -> jax.Array:
    """Returns the flat row number of each destination, in rows of ``row_width`` elements.

    A contribution whose index is out of range gets the row number after the last.
    """
    outer, size, _ = operand.shape
    lanes = indices.shape[2]
    index = jnp.broadcast_to(at_least_32_bits(indices), (outer, *indices.shape[1:]))
    inside = is_inside(index, size)
    offset = lax.convert_element_type(index, jnp.int32)
    if outer != 1:
        a = lax.broadcasted_iota(jnp.int32, index.shape, 0)
        offset = lax.add(lax.mul(a, number(a, size)), offset)
    if lanes != 1:
        b = lax.broadcasted_iota(jnp.int32, index.shape, 2)
        offset = lax.add(lax.mul(offset, number(b, lanes)), b)
    return lax.select(inside, offset, filled(offset, outer * size * lanes)).reshape(-1)


def atomic_kernel(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Combines all contributions in one pass of atomics.

    Sums of float16 and bfloat16 are added in their own dtype, as plain JAX and PyTorch add them on
    a GPU. A sum in float32 would have to be filled first and converted afterwards: twice the bytes.
    """
    narrow = jnp.issubdtype(operand.dtype, jnp.floating) and operand.dtype.itemsize == _NARROW
    own = narrow and reduction is ADD and weights is None and FLOAT32_HAS_ATOMIC_ADD
    if own and not launch.interpret and updates.size and operand.size:
        return xla_scatter(reduction, operand, indices, updates)
    return _atomic_kernel(
        operand,
        indices,
        updates,
        reduction=reduction,
        launch=launch,
        weights=weights,
        sources=sources,
    )


@in_accumulator_dtype
def _atomic_kernel(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
    weights: jax.Array | None,
    sources: jax.Array | None,
) -> jax.Array:
    """Combines all contributions in one pass of atomics, by XLA's scatter if it has the atomics.

    An atomic of the kernel backend waits for all writes before it. So the kernel is only for
    reductions that XLA compiles to a loop of compare and swap, and for a schedule of tests. Without
    kernels, a schedule permutes the contributions of XLA's scatter.
    """
    native = _has_atomics(operand.dtype, reduction) and not (
        launch.interpret and jnp.issubdtype(operand.dtype, jnp.floating)
    )
    count = updates.size // updates.shape[1] * indices.shape[1]
    large = max(operand.size, updates.size, count) > MAX_ELEMENTS
    if native or large or not launch.has_kernels:
        values = contributions(updates, weights, sources, 0, indices.shape[1])
        if not native and launch.seed:
            order = scheduled(launch.seed, indices.shape[1], salt=0)
            indices, values = (jnp.take(a, order, axis=1, mode="clip") for a in (indices, values))
        if jnp.issubdtype(operand.dtype, jnp.integer) and reduction is ADD and not large:
            return _add_integers(operand, indices, values)
        return xla_scatter(reduction, operand, indices, values)
    return _kernels.scatter_accumulate.atomic(
        operand,
        indices,
        updates,
        reduction=reduction,
        launch=launch,
        weights=weights,
        sources=flat_sources(sources, updates),
    )


def _add_integers(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Adds integers, such as the ones of a count, without contention for few destinations."""
    width = row_width(operand, indices)
    shape = () if width == 1 else (width,)
    if operand.shape[0] == indices.shape[2] == 1:
        size = operand.shape[1]
        keys = within(indices.reshape(-1), size).astype(jnp.int32)
        # The sum of floats with these indices has the same keys, so XLA computes them once.
        keys = where((keys >= 0) & (keys <= size - 1), keys, size)
    else:
        keys = flat_offsets(operand, indices)
    initial = operand.reshape(-1, *shape)
    replicas = Replicas.of(keys, initial.shape[0], width=width)
    return replicas.add(initial, updates.reshape(-1, *shape)).reshape(operand.shape)


def _has_atomics(dtype: jax.typing.DTypeLike, reduction: Reduction) -> bool:
    """Returns whether XLA's scatter combines elements on a GPU by one instruction each.

    Integers count as such for every reduction, since the kernel backend has atomics of floats only.
    """
    if jnp.issubdtype(dtype, jnp.integer):
        return True
    return reduction is ADD and (dtype == jnp.float64 or FLOAT32_HAS_ATOMIC_ADD)
