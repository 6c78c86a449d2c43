"""Operations that move elements, under ``portable``: as those of integers, if devices share them.

To read elements from another device, XLA adds zeros to them. -0.0 + 0.0 is 0.0, so a float would
lose the sign of a zero, where an integer with the same bits stays as it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import mlir

from impl._core import jax_internals
from impl._core.jax_internals import Primitive, lowering, shardings
from impl._lowerings import _partitioning

_PRIMITIVES: Mapping[str, Primitive] = {
    primitive.name: primitive
    for primitive in (
        lax.concatenate_p,
        lax.dynamic_slice_p,
        lax.dynamic_update_slice_p,
        lax.gather_p,
        lax.pad_p,
        lax.slice_p,
        lax.split_p,
    )
}
#: The names of the primitives.
NAMES = frozenset(_PRIMITIVES)


def is_shared(context: Any) -> bool:
    """Returns whether a rule moves floats that several devices may share."""
    dtype = context.avals_in[0].dtype
    if not jnp.issubdtype(dtype, jnp.inexact) or jnp.finfo(dtype).bits < _partitioning.NARROWEST:
        return False
    return _partitioning.is_partitioned(context)


def lower(name: str, context: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Lowers an operation on floats by that on unsigned integers with the same bits."""
    primitive = _PRIMITIVES[name]
    if name == "gather":
        moved: Callable[..., Any] = functools.partial(_gather, params)
    else:
        function = functools.partial(primitive.bind, **params)
        if name in _SLICES:
            function = functools.partial(_SLICES[name], **params, devices=_devices(context))
        moved = _partitioning.as_bits(function)
    rule = mlir.lower_fun(moved, multiple_results=primitive.multiple_results)
    with shardings.no_mesh():
        return rule(shardings.without_shardings(lowering.natively(context)), *operands)


def short_axes(context: Any, aval: Any) -> list[int]:
    """Returns the axes of an operand or a result that devices may share as a longer one of another.

    Half of the devices, or more, would then have nothing of them.
    """
    devices = _devices(context)
    shapes = [each.shape for each in (*context.avals_in, *context.avals_out)]
    shapes = [shape for shape in shapes if len(shape) == aval.ndim]
    return [
        axis
        for axis, length in enumerate(aval.shape)
        if shardings.sends_zeros(length, devices) and length < max(s[axis] for s in shapes)
    ]


def whole_where_short(context: Any, values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Returns operands or results, each with the whole of its short axes on every device."""
    pairs = ((value, short_axes(context, aval)) for value, aval in zip(values, avals, strict=True))
    return [shardings.whole_along(context, value, axes) if axes else value for value, axes in pairs]


def _gather(params: Mapping[str, Any], operand: jax.Array, indices: jax.Array) -> Any:
    """Gathers elements; out of range, those of a mode that fills have the bits of a number."""
    indices = _wide(indices)
    if params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
        return _partitioning.as_bits(functools.partial(lax.gather_p.bind, **params))(
            operand, indices
        )
    fill = np.asarray(np.nan if params["fill_value"] is None else params["fill_value"])

    def part(value: jax.Array, number: Any) -> Any:
        of_dtype = np.asarray(number).astype(value.dtype)
        bits = int(of_dtype.view(f"uint{8 * of_dtype.itemsize}"))
        function = functools.partial(lax.gather_p.bind, **{**params, "fill_value": bits})
        return _partitioning.as_bits(function)(value, indices)

    if jnp.issubdtype(operand.dtype, jnp.complexfloating):
        return lax.complex(part(lax.real(operand), fill.real), part(lax.imag(operand), fill.imag))
    return part(operand, fill.real)


def _devices(context: Any) -> float:
    return math.inf if jax_internals.exports(context) else shardings.devices_of(context)


def _slice(
    value: jax.Array,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
    devices: float,
) -> jax.Array:
    """Slices an array, and reads the few elements that are left along an axis by their positions.

    XLA may leave most devices without any of these, and then adds zeros to the float of each.
    """
    steps = strides or [1] * value.ndim
    for axis, places in enumerate(map(range, start_indices, limit_indices, steps)):
        if len(places) == value.shape[axis]:
            continue
        if 0 < len(places) < devices:
            value = _at(value, np.array(places, np.int32), axis)
        else:
            value = lax.slice_in_dim(value, places.start, places.stop, places.step, axis)
    return value


def _dynamic_slice(
    value: jax.Array, *starts: jax.Array, slice_sizes: Sequence[int], devices: float
) -> jax.Array:
    """Does the same for a slice whose place is not known."""
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
        last = lax.full_like(start, value.shape[axis] - size)
        first = lax.clamp(lax.full_like(start, 0), start, last)
        value = _at(value, lax.add(first, lax.iota(start.dtype, size)), axis)
    return value


def _wide(index: jax.Array) -> jax.Array:
    """Returns an index of at least 32 bits: XLA's partitioner ends the process at others."""
    return lax.convert_element_type(index, np.int32) if index.dtype.itemsize < 4 else index


def _at(value: jax.Array, places: Any, axis: int) -> jax.Array:
    others = tuple(each for each in range(value.ndim) if each != axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=others, collapsed_slice_dims=(axis,), start_index_map=(axis,)
    )
    sizes = [1 if each == axis else length for each, length in enumerate(value.shape)]
    return lax.gather(value, places[:, None], numbers, sizes, mode="promise_in_bounds")


def _split(value: jax.Array, *, sizes: Sequence[int], axis: int, devices: float) -> list[jax.Array]:
    ends = [int(end) for end in np.cumsum(sizes)]
    starts, limits = [0] * value.ndim, [*value.shape]

    def part(start: int, end: int) -> jax.Array:
        first, last = [*starts], [*limits]
        first[axis], last[axis] = start, end
        return _slice(value, start_indices=first, limit_indices=last, strides=None, devices=devices)

    return [part(start, end) for start, end in zip([0, *ends], ends, strict=False)]


#: Those that take the number of devices too.
_SLICES: Mapping[str, Callable[..., Any]] = {
    "dynamic_slice": _dynamic_slice,
    "slice": _slice,
    "split": _split,
}
