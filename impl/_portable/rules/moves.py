"""Operations that move elements: on floats that devices share, as operations on integers.

``impl._portable.shared`` tells why: to read elements of another device, XLA adds zeros to them,
which changes -0.0. An unsigned integer with the same bits stays as it is. For example, of a
float32 that eight devices share, ``x[::2]`` is lowered as

    bits = bitcast_convert_type(x, uint32); y = bits[::2]; bitcast_convert_type(y, float32)
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import partitioning
from impl._core.axes import spread
from impl._core.lax_functions import clipped
from impl._core.numerics import fence
from impl._jax import Primitive, shardings
from impl._portable import shared
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import ALL, FIRST, Compute, rule


def _as_bits(function: Compute) -> Compute:
    """Returns a function that moves the bits of floats, as unsigned integers."""

    def run(*operands: jax.Array, **params: Any) -> Any:
        return partitioning.as_bits(functools.partial(function, **params))(*operands)

    return run


def _primitive(primitive: Primitive) -> Compute:
    """Returns the function that a primitive computes, of the bits of its operands."""

    def run(*operands: jax.Array, devices: float, **params: Any) -> Any:
        del devices
        return primitive.bind(*operands, **params)

    return _as_bits(run)


def _gather(operand: jax.Array, indices: jax.Array, *, devices: float, **params: Any) -> Any:
    """Gathers elements; an index out of range gives the bits of the mode's fill value."""
    del devices
    indices = _wide(indices)
    if params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
        return partitioning.as_bits(functools.partial(_apart, **params))(operand, indices)
    fill = np.asarray(np.nan if params["fill_value"] is None else params["fill_value"])

    def part(value: jax.Array, number: Any) -> Any:
        of_dtype = np.asarray(number).astype(value.dtype)
        bits = int(of_dtype.view(f"uint{8 * of_dtype.itemsize}"))
        function = functools.partial(_apart, **{**params, "fill_value": bits})
        return partitioning.as_bits(function)(value, indices)

    if jnp.issubdtype(operand.dtype, jnp.complexfloating):
        return lax.complex(part(lax.real(operand), fill.real), part(lax.imag(operand), fill.imag))
    return part(operand, fill.real)


def _apart(*operands: jax.Array, **params: Any) -> jax.Array:
    """Gathers elements; the operations that read the result do not decide how it is sharded.

    XLA's partitioner may give wrong values if one axis of a mesh shards both the axis of the
    indices and, for such an operation, another axis of the result (jax 0.10 to 0.12; no upstream
    issue is known).
    """
    return shardings.cut_as_the_operands(lax.gather_p.bind(*operands, **params))


def _slice(
    value: jax.Array,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
    devices: float,
) -> jax.Array:
    """Slices an array; along an axis with few elements, it gathers these by their indices.

    XLA may leave most devices without any element of a slice, and so adds zeros to each element.
    """
    steps = strides or [1] * value.ndim
    for axis, indices in enumerate(map(range, start_indices, limit_indices, steps)):
        if len(indices) == value.shape[axis]:
            continue
        if 0 < len(indices) < devices:
            # XLA folds a chain of gathers of constants to wrong values (jax 0.10 to 0.12; no
            # upstream issue is known). The fence keeps it from folding.
            value = _at(value, fence(jnp.array(indices, np.int32)), axis)
        else:
            value = lax.slice_in_dim(value, indices.start, indices.stop, indices.step, axis)
    return value


def _dynamic_slice(
    value: jax.Array, *starts: jax.Array, slice_sizes: Sequence[int], devices: float
) -> jax.Array:
    """Slices an array from indices that only the running program knows, as ``_slice`` does."""
    sizes, few = [*value.shape], {}
    others = [lax.full_like(start, 0) for start in starts]
    for axis, (start, size) in enumerate(zip(starts, slice_sizes, strict=True)):
        if size == value.shape[axis]:
            continue
        if 0 < size < devices:
            few[axis] = _wide(start), size
        else:
            others[axis], sizes[axis] = start, size
    value = lax.dynamic_slice_p.bind(value, *others, slice_sizes=tuple(sizes))
    for axis, (start, size) in few.items():
        first = clipped(start, value.shape[axis] - size)
        value = _at(value, lax.add(first, lax.iota(start.dtype, size)), axis)
    return value


def _dynamic_update_slice(
    value: jax.Array, update: jax.Array, *starts: jax.Array, devices: float
) -> jax.Array:
    """Writes an update at indices that only the running program knows.

    Along an axis that devices share, XLA drops an update of one element that starts beyond the end,
    where it would move the update to the last position, and a part of a longer one with a known
    start (jax 0.10 to 0.12; no upstream issue is known). So the start is moved here.
    """
    del devices
    lengths = zip(value.shape, update.shape, strict=True)
    clamped = [
        clipped(start, old - new) if new != old else start
        for start, (old, new) in zip(map(_wide, starts), lengths, strict=True)
    ]
    updated: jax.Array = lax.dynamic_update_slice_p.bind(value, update, *clamped)
    return updated


def _from_within(
    value: jax.Array, *starts: jax.Array, slice_sizes: Sequence[int], **_: Any
) -> list[jax.Array]:
    """Returns the operands of a slice, each of whose starts is in the range of its axis."""
    lengths = zip(starts, value.shape, slice_sizes, strict=True)
    return [value, *(clipped(start, old - new) for start, old, new in lengths)]


def _gathered_within(
    value: jax.Array, indices: jax.Array, *, dimension_numbers: Any, mode: Any, **params: Any
) -> list[jax.Array]:
    """Returns the operands of a gather, which XLA writes as a slice if it has one window."""
    axes, sizes = dimension_numbers.start_index_map, params["slice_sizes"]
    if indices.size == len(axes) > 0 and mode == lax.GatherScatterMode.CLIP:
        indices = clipped(indices, *(value.shape[axis] - sizes[axis] for axis in axes))
    return [value, indices]


def _wide(index: jax.Array) -> jax.Array:
    """Returns an index of at least 32 bits: at narrower ones, XLA's partitioner aborts."""
    return lax.convert_element_type(index, np.int32) if index.dtype.itemsize < 4 else index


def _at(value: jax.Array, indices: Any, axis: int) -> jax.Array:
    """Returns the elements at some indices along an axis."""
    others = tuple(each for each in range(value.ndim) if each != axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=others, collapsed_slice_dims=(axis,), start_index_map=(axis,)
    )
    sizes = [1 if each == axis else length for each, length in enumerate(value.shape)]
    gathered = lax.gather(value, indices[:, None], numbers, sizes, mode="promise_in_bounds")
    return shardings.cut_as_the_operands(gathered)


def _pad(
    value: jax.Array, fill: jax.Array, *, padding_config: Sequence[Sequence[int]], devices: float
) -> jax.Array:
    del devices
    edges = [(low, high) for low, high, _ in padding_config]
    return spread(value, fill, edges, [between + 1 for *_, between in padding_config])


def _split(value: jax.Array, *, sizes: Sequence[int], axis: int, devices: float) -> list[jax.Array]:
    ends = [int(end) for end in np.cumsum(sizes)]
    starts, limits = [0] * value.ndim, [*value.shape]

    def part(start: int, end: int) -> jax.Array:
        first, last = [*starts], [*limits]
        first[axis], last[axis] = start, end
        return _slice(value, start_indices=first, limit_indices=last, strides=None, devices=devices)

    return [part(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _constraint(context: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a sharding constraint that gives each device some elements.

    Of indices too: XLA shards what they gather in the same way.
    """
    if not shared.is_shared(context, of_integers=True):
        return dict(params)
    shape = context.avals_in[0].shape
    return {**params, "sharding": shardings.with_data_on_devices(params["sharding"], shape)}


rule(
    "concatenate",
    moves=_primitive(lax.concatenate_p),
    linear=ALL,
    sharding=sharding_rules.concatenate,
)
rule(
    "dynamic_slice",
    guards=_from_within,
    moves=_as_bits(_dynamic_slice),
    linear=FIRST,
    sharding=sharding_rules.keep_lengths,
)
rule(
    "dynamic_update_slice",
    moves=_as_bits(_dynamic_update_slice),
    moves_integers=True,
    linear=(0, 1),
    sharding=sharding_rules.dynamic_update_slice,
)
rule(
    "gather",
    guards=_gathered_within,
    moves=_gather,
    moves_integers=True,
    linear=FIRST,
    sharding=sharding_rules.gather,
)
rule(
    "pad",
    moves=_as_bits(_pad),
    moves_integers=True,
    keeps_whole=shared.short_axes,
    guards=shared.with_own_border,
    linear=ALL,
    sharding=sharding_rules.keep_lengths,
)
rule("sharding_constraint", params=_constraint)
rule("slice", moves=_as_bits(_slice), linear=FIRST, sharding=sharding_rules.keep_lengths)
rule(
    "split",
    moves=_as_bits(_split),
    has_several_results=True,
    linear=FIRST,
    sharding=sharding_rules.keep_lengths,
)
rule("stack", moves=_primitive(lax.stack_p), linear=ALL, sharding=sharding_rules.stack)
rule(
    "unstack",
    moves=_primitive(lax.unstack_p),
    has_several_results=True,
    linear=FIRST,
    sharding=sharding_rules.unstack,
)
