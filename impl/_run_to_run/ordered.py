"""JAX's scatters in an order that the source fixes.

Sums and products sort their contributions by destination, and combine each destination's from left
to right: by a kernel (``impl._kernels.scatter_runs``), or in rounds where JAX has no kernels, and
under ``portable``. Of several writes to one element the last one stays: the positions of the writes
are scattered, as integers, by their maximum. For ``x.at[jnp.array([2, 0, 2])].add(u)``::

    destinations, sorted     0 2 2
    rows of u                1 0 2         a stable sort, so that rows ascend for each destination
    results                  x[0] + u[1], x[1], (x[2] + u[0]) + u[2]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import ScatterDimensionNumbers

from impl import _kernels
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, isolate
from impl._core.partitioning import LEFT_TO_XLA, Axes
from impl._core.shard_axes import vary_like
from impl._exact.sums.pool_choices import UNROLLED, Padding, Pool, chosen_taps, folded, sent
from impl._jax import Primitive
from impl._kernels.launch import ADD, MUL, Launch, Reduction
from impl._run_to_run import flat_scatter
from impl._run_to_run.flat_scatter import FlatScatter

#: The number of bits of the widest integer that holds a key together with its position.
_WORD = 32


def compute(
    primitive: Primitive,
    *operands: jax.Array,
    launch: Launch | None,
    by_atomics: bool = False,
    **params: Any,
) -> jax.Array:
    """Computes what an equation of JAX does, in an order that the device does not choose.

    Args:
        primitive: One of ``impl._core.ordered_primitives.PRIMITIVES``.
        *operands: The operands of the equation.
        launch: How kernels run; None for no kernels.
        by_atomics: Whether the device chooses an order after all, for the mode off.
        **params: The parameters of the equation.
    """
    if primitive is lax.select_and_scatter_add_p:
        return select_and_scatter_add(*operands, **params)
    operand, indices, updates = operands
    numbers, mode = params["dimension_numbers"], params["mode"]
    if jnp.issubdtype(operand.dtype, jax.dtypes.extended):
        return _scatter_of_keys(primitive, *operands, launch=launch, **params)
    flat = flat_scatter.flatten(operand, indices, updates, dimension_numbers=numbers, mode=mode)
    if flat.operand.size == 0 or flat.updates.size == 0:
        return operand
    if primitive is lax.scatter_p:
        return flat.restore(_last_written(flat))
    reduction = MUL if primitive is lax.scatter_mul_p else ADD
    if primitive is lax.scatter_sub_p:
        flat = dataclasses.replace(flat, updates=-flat.updates)
    if by_atomics and launch is not None:
        rows = flat.operand, flat.keys, flat.updates
        return flat.restore(
            _kernels.scatter_atomic.combine(*rows, reduction=reduction, launch=launch)
        )
    return flat.restore(_combined(flat, reduction, launch))


def has_atomics(primitive: Primitive, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether the kernel of atomics takes a scatter that XLA compiles to a loop."""
    return primitive is lax.scatter_mul_p and dtype in (jnp.float32, jnp.float64)


def free_axes(primitive: Primitive, operands: Any, params: Any) -> Axes:
    """Returns the axes along which devices may share an equation, each with its own elements.

    Args:
        primitive: One of ``impl._core.ordered_primitives.PRIMITIVES``.
        operands: The types of the operands.
        params: The parameters of the equation.
    """
    if primitive is lax.select_and_scatter_add_p:
        return LEFT_TO_XLA  # It partitions additions of shifted arrays, which keep their order.
    return flat_scatter.free_axes(*operands, numbers=params["dimension_numbers"])


def _combined(flat: FlatScatter, reduction: Reduction, launch: Launch | None) -> jax.Array:
    """Combines rows with the contributions to each; complex numbers by their parts."""
    if jnp.issubdtype(flat.operand.dtype, jnp.complexfloating):
        parts = dataclasses.replace(
            flat, operand=_parts(flat.operand), updates=_parts(flat.updates)
        )
        return lax.complex(*jnp.split(_combined(parts, reduction, launch), 2, axis=1))
    keys, rows = sorted_keys(flat.keys, flat.operand.shape[0])
    if launch is None:
        return _in_rounds(flat.operand, keys, flat.updates[rows], reduction)
    return _kernels.scatter_runs.fold(
        flat.operand, keys, rows, flat.updates, reduction=reduction, launch=launch
    )


def _parts(values: jax.Array) -> jax.Array:
    return jnp.concatenate([values.real, values.imag], axis=1)


def sorted_keys(destination: jax.Array, destinations: int) -> tuple[jax.Array, jax.Array]:
    """Sorts contributions by destination, then by position.

    If a key and its position fit into one integer, these integers are sorted. Otherwise pairs of
    key and position are sorted, which XLA on a GPU also does by radix.

    Args:
        destination: The destination of each contribution, int32, shape [n].
        destinations: The number of destinations. An invalid destination is sorted as this number.

    Returns:
        The destinations and the positions, int32.
    """
    n = destination.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    valid = where(destination < destinations, destination, destinations)
    bits = max(n - 1, 1).bit_length()
    if destinations.bit_length() + bits <= _WORD:
        word = jnp.uint16 if destinations.bit_length() + bits <= _WORD // 2 else jnp.uint32
        words = jax.lax.sort((valid.astype(word) << bits) | position.astype(word))
        positions = (words & word((1 << bits) - 1)).astype(jnp.int32)
        return (words >> bits).astype(jnp.int32), positions
    dtype = jnp.uint16 if destinations < 1 << (_WORD // 2) else jnp.uint32
    keys, positions = jax.lax.sort((valid.astype(dtype), position), num_keys=1, is_stable=True)
    return keys.astype(jnp.int32), positions


def _in_rounds(
    operand: jax.Array, keys: jax.Array, terms: jax.Array, reduction: Reduction
) -> jax.Array:
    """Combines sorted contributions in the rounds of the spec's order ``source``.

    It takes no kernel. Neither padding nor other destinations change the order of a destination.
    """
    n, size = keys.shape[0], operand.shape[0]
    position = vary_like(jnp.arange(n, dtype=jnp.int32), keys)
    starts = jnp.concatenate([vary_like(jnp.ones(1, bool), keys), keys[1:] != keys[:-1]])
    number = position - lax.cummax(where(starts, position, 0))
    longest = jnp.max(number) + 1
    wide = accumulator(operand.dtype)

    def later(values: jax.Array, distance: jax.Array) -> jax.Array:
        twice = jnp.concatenate([values, values])
        return lax.dynamic_slice_in_dim(twice, distance, n)

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        distance, totals = state
        takes = (number % (2 * distance) == 0) & (position + distance < n)
        takes &= later(keys, distance) == keys
        both = reduction.combine(totals, later(totals, distance))
        return 2 * distance, where(takes[:, None], both, totals)

    state = vary_like(jnp.int32(1), keys), vary_like(convert(terms, wide), keys)
    _, totals = lax.while_loop(lambda state: state[0] < longest, step, state)
    initial = convert(operand[jnp.minimum(keys, size - 1)], wide)
    totals = convert(reduction.combine(initial, totals), operand.dtype)
    # The rows beyond the last one are distinct too, as ``unique_indices`` promises.
    is_written = starts & (keys < size)
    rows = where(is_written, keys.astype(jnp.uint32), size + position.astype(jnp.uint32))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    return lax.scatter(operand, rows[:, None], totals, numbers, unique_indices=True, mode="drop")


def _last_written(flat: FlatScatter) -> jax.Array:
    """Writes rows; of several writes to one row, the one at the highest position stays."""
    # The maximum of integers is the same in every order.
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    none = vary_like(jnp.full(flat.operand.shape[0], -1, jnp.int32), flat.keys)
    positions = vary_like(jnp.arange(flat.keys.shape[0], dtype=jnp.int32), flat.keys)
    writers = lax.scatter_max(none, flat.keys[:, None], positions, numbers, mode="drop")
    taken = flat.updates[jnp.maximum(writers, 0)]
    return where((writers >= 0)[:, None], taken, flat.operand)


def _scatter_of_keys(
    primitive: Primitive,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    launch: Launch | None,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> jax.Array:
    """Scatters the words of random keys, which are one more dimension of the windows."""
    words, of_updates = jax.random.key_data(operand), jax.random.key_data(updates)
    added = tuple(range(updates.ndim, of_updates.ndim))
    numbers = dimension_numbers._replace(
        update_window_dims=(*dimension_numbers.update_window_dims, *added)
    )
    params = {**params, "dimension_numbers": numbers}
    out = compute(primitive, words, indices, of_updates, launch=launch, **params)
    keys: jax.Array = jax.random.wrap_key_data(out, impl=jax.random.key_impl(operand))
    return keys


def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    order: jax.Array | None = None,
) -> jax.Array:
    """Computes ``lax.select_and_scatter_add``, the gradient of a max pool, in the order of windows.

    Each window sends its cotangent to the element that it chose, and XLA adds the cotangents of one
    element in any order. Instead, each element first adds the cotangent of the window that has it
    as the last element, then of the window that has it as the last but one, and so on. The order of
    the sum is then the order of the windows, and no scatter is needed. A *tap* is one element of a
    window.

    Args:
        source: The cotangent of each window.
        operand: The input of the pool.
        select_prim: The comparison by which a window keeps its present element rather than the next
            one.
        window_dimensions: The shape of a window.
        window_strides: The distance between windows.
        padding: Elements before and after each axis, which no window chooses.
        order: The order of the taps, for a test; None adds in the order of the windows.

    Returns:
        The cotangent of the operand.
    """
    pool = Pool(
        # The last tap of a window comes first: an element then adds its windows in ascending order.
        taps=list(np.ndindex(*window_dimensions))[::-1],
        sizes=operand.shape,
        outputs=source.shape,
        strides=window_strides,
        padding=padding,
    )
    values = isolate(convert(source, accumulator(source.dtype)))
    total = jnp.zeros(operand.shape, values.dtype)
    if order is None and len(pool.taps) <= UNROLLED:
        chosen = chosen_taps(pool, operand, select_prim, unrolled=True)
        for number in range(len(pool.taps)):
            total = total + sent(pool, number, values, chosen)
    else:
        order = jnp.arange(len(pool.taps)) if order is None else order
        chosen = chosen_taps(pool, operand, select_prim, unrolled=False)
        (total,) = folded(pool, order, _added, [total], [], values, chosen)
    return convert(total, source.dtype)


def _added(states: list[jax.Array], others: list[jax.Array], sent: jax.Array) -> list[jax.Array]:
    del others
    return [states[0] + sent]
