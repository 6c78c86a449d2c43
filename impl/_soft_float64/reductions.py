"""Sums, extremes, running sums and scatters of float64, by integers.

XLA takes any function of two elements for a reduction or a scatter, and applies it in any order, as
it does with ``add`` of float64. A caller for whom the order shows does not call these functions::

    reduced(arithmetic.add, words of [1, 2**-53, 2**-53], 0, (0,))    1, or 1 + 2**-52
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import shard_axes
from impl._jax import shardings
from impl._soft_float64 import arithmetic, words

#: A function of two words.
Combine = Callable[[jax.Array, jax.Array], jax.Array]


def reduced(combine: Combine, value: jax.Array, initial: Any, axes: Sequence[int]) -> jax.Array:
    """Returns a reduction of words over axes. ``initial`` is a word that changes no other one.

    XLA's partitioner makes a collective of a reduction of one array, and no device has a collective
    of a function like ``combine``. Of several arrays, here the halves of the words, it gathers the
    results of the devices.
    """

    def of_halves(first: Sequence[jax.Array], second: Sequence[jax.Array]) -> list[jax.Array]:
        return _halves(combine(_joined(*first), _joined(*second)))

    starts = [np.uint32(int(initial) >> 32), np.uint32(int(initial) & 0xFFFFFFFF)]
    high, low = lax.reduce(_halves(value), starts, of_halves, tuple(axes))
    return _joined(high, low)


def _halves(word: jax.Array) -> list[jax.Array]:
    return [lax.convert_element_type(each, np.uint32) for each in (words.right(word, 32), word)]


def _joined(high: jax.Array, low: jax.Array) -> jax.Array:
    high, low = (lax.convert_element_type(each, np.uint64) for each in (high, low))
    return lax.bitwise_or(words.left(high, 32), low)


def cumsum(value: jax.Array, *, axis: int, reverse: bool, **_: Any) -> jax.Array:
    """Returns running sums along an axis."""
    sums: jax.Array = lax.associative_scan(arithmetic.add, value, reverse=reverse, axis=axis)
    return sums


def reduction(combine: Combine, initial: float) -> Callable[..., Any]:
    """Returns a reduction over axes, and over mesh axes of a ``shard_map``, on each device of them.

    It combines two words; ``initial`` is the number that changes no other one.
    """
    word = np.float64(initial).view(np.uint64)

    def run(
        *values: jax.Array, axes: Sequence[Any], equation: Any, **params: Any
    ) -> jax.Array | list[jax.Array]:
        along, names = shard_axes.split(axes)
        groups, found = params.get("axis_index_groups"), list(values)
        if along:
            found = [reduced(combine, value, word, along) for value in found]
        if names:
            parts = [lax.all_gather(x, names, axis_index_groups=groups) for x in found]
            found = [reduced(combine, value, word, (0,)) for value in parts]
        return found if equation.primitive.multiple_results else found[0]

    return run


def reduce_scatter(
    value: jax.Array,
    *,
    axis_name: Any,
    scatter_dimension: int,
    axis_index_groups: Any,
    axis_size: int,
    tiled: bool,
    **_: Any,
) -> jax.Array:
    """Returns the part of a sum over a mesh axis that belongs to the device."""
    parts = lax.all_gather(value, axis_name, axis_index_groups=axis_index_groups)
    total = reduced(arithmetic.add, parts, np.uint64(0), (0,))
    groups = axis_index_groups or [range(lax.axis_size(axis_name))]
    places = {device: place for group in groups for place, device in enumerate(group)}
    table = jnp.asarray([places[device] for device in sorted(places)], np.int32)
    size = value.shape[scatter_dimension] // axis_size
    start = table[lax.axis_index(axis_name)] * size
    part = lax.dynamic_slice_in_dim(total, start, size, scatter_dimension)
    return part if tiled else lax.squeeze(part, (scatter_dimension,))


def scatter_add(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, equation: Any, **params: Any
) -> jax.Array:
    """Returns an array with updates added at indices, on each device."""
    scalar = jax.ShapeDtypeStruct((), np.uint64)
    combine = jax.make_jaxpr(arithmetic.add)(scalar, scalar)
    params |= {"update_jaxpr": combine.jaxpr, "update_consts": ()}
    # The partitioner would make a collective of ``add``.
    whole = [shardings.whole(each, range(each.ndim)) for each in (operand, indices, updates)]
    result: jax.Array = equation.primitive.bind(*whole, **params)
    return result
