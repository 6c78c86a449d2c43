"""Calls of the engine ``native``, also in a program that XLA partitions over devices.

XLA cannot look into a call, so the names of an operation's axes say how it is cut
(``_jax.partitions``). Where a summed axis is cut, the devices add their sums exactly. For
a gradient [k, m] = [b, k] x [b, m] over 8 devices that share the batch b::

    operands    tiles [8, 1] and [8, 1]
    result      replicated; the groups of devices that share sums are {0, ..., 7}
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import batching, mlir, xla

from impl._core.shard_axes import Devices
from impl._jax import Primitive, lowering, partitions, repeated, shardings
from impl._jax.shardings import Names, Tiling
from impl._native import devices, scope
from impl._native.operation import Call, Operation, Summing
from impl._version import __version__

#: The only axis of the mesh that a device's part is traced in: all devices, by their numbers.
_DEVICES = "samebits_devices"


_call_p = Primitive(scope.CALL)
_call_p.def_abstract_eval(
    lambda *avals, operation, devices: _shape(operation, avals)  # noqa: ARG005  # of the primitive
)


def call(operation: Operation, operands: Sequence[jax.Array], devices: int) -> jax.Array:
    """Returns the results of an operation on whole operands, as one equation.

    XLA may partition the program over this number of devices.
    """
    result: jax.Array = _call_p.bind(*operands, operation=operation, devices=devices)
    return result


def _shape(operation: Operation, avals: Sequence[Any]) -> Any:
    result = _call_of(operation, *avals).result
    return jax.core.ShapedArray(result.shape, result.dtype)


@functools.lru_cache(maxsize=256)
def _call_of(operation: Operation, *types: Any) -> Call:
    """Returns the call of an operation: JAX asks for its type first, and then for the call."""
    return operation.call(*types)


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, operation: Operation, devices: int
) -> tuple[jax.Array, int]:
    """Calls an operation for each element of a batch: it has no axis for more."""
    are_batched = [dim is not None for dim in dims]
    batch = [
        jnp.moveaxis(each, dim, 0)
        for each, dim in zip(operands, dims, strict=True)
        if dim is not None
    ]

    def one(values: Sequence[jax.Array]) -> jax.Array:
        own = iter(values)
        pairs = zip(operands, are_batched, strict=True)
        return call(operation, [next(own) if batched else x for x, batched in pairs], devices)

    return lax.map(one, batch), 0


def _lower(context: Any, *operands: Any, operation: Operation, devices: int) -> Any:
    context = lowering.natively(context)
    if devices == 1:
        if operation.reads_sources:
            arrays, axes = zip(*map(repeated.source, operands), strict=True)
            reading = operation.reading(*axes)
            if reading is not None:
                avals = [*map(repeated.narrow_type, arrays)]
                operation, operands, context = reading, arrays, context.replace(avals_in=avals)
        call = _call_of(operation, *context.avals_in)
        rule = jax.ffi.ffi_lowering(call.name, operand_output_aliases=dict(call.aliases))
        return rule(context, *operands, **call.attributes)
    shardings.check_partitioner(context)
    context = shardings.with_devices(context)
    results = mlir.lower_fun(_cut(operation, devices), multiple_results=False)(context, *operands)
    text = f"{__version__} {operation!r} {context.avals_in} {devices}"
    partitions.name_by_content(context, results, lambda: text)
    repeated.mark_call(results[0])
    return results


_call_p.def_impl(functools.partial(xla.apply_primitive, _call_p))
batching.primitive_batchers[_call_p] = _batch
mlir.register_lowering(_call_p, _lower, platform="cpu", cacheable=False)


def _cut(operation: Operation, number: int) -> Callable[..., Any]:
    """Returns an operation as one that XLA cuts over a number of devices."""
    names = operation.operands, (operation.result,)
    # JAX lowers what XLA gives a device later, in a context of its own.
    compute = lowering.native(operation.nearest)
    if not isinstance(operation, Summing):
        return partitions.partitioned(compute, *names)
    mesh = jax.sharding.AbstractMesh((number,), (_DEVICES,))
    part = functools.partial(_part, operation)
    return partitions.partitioned(compute, *names, part, mesh)


def _part(operation: Summing, tiling: Tiling, shapes: Sequence[Any]) -> Callable[..., jax.Array]:
    """Returns the operation of one device, which has tiles of the operands."""
    groups = tiling.groups_along(operation.summed)
    if groups is None:
        return lowering.native(operation.nearest)
    group = Devices((_DEVICES,), groups)

    def add(*operands: jax.Array) -> jax.Array:
        terms = [
            _once(each, group)
            if number in operation.once
            else _within(tiling, each, shapes[number].shape, names, operation.summed)
            for number, (each, names) in enumerate(zip(operands, operation.operands, strict=True))
        ]
        return devices.add_exactly(operation, terms, group)

    return lowering.native(add)


def _once(value: jax.Array, group: Devices) -> jax.Array:
    """Returns an array on the first device of a group, and zeros on the other ones."""
    is_first = jnp.broadcast_to(group.is_first(), value.shape)
    return lax.select(is_first, value, lax.full_like(value, 0))


def _within(
    tiling: Tiling, value: jax.Array, shape: Sequence[int], names: Names, summed: frozenset[str]
) -> jax.Array:
    """Returns the tile of an operand with zeros beyond the end of a summed axis.

    XLA makes all tiles of an axis equally long, and may compute anything beyond the end.
    """
    for axis, (name, length) in enumerate(zip(names, shape, strict=True)):
        if name is None or name not in summed or name not in tiling.names:
            continue
        size = value.shape[axis]
        # A short axis may have tiles that lie wholly beyond the end: six elements in four tiles.
        if size * tiling.tiles[tiling.names.index(name)] <= length:
            continue
        numbers = np.array(tiling.numbers_along(name), np.int32)
        number = lax.dynamic_index_in_dim(numbers, lax.axis_index(_DEVICES), keepdims=False)
        position = lax.add(
            lax.broadcasted_iota(np.int32, value.shape, axis), number * np.int32(size)
        )
        is_inside = lax.lt(position, lax.full_like(position, length))
        value = lax.select(is_inside, value, lax.full_like(value, 0))
    return value


#: An operation and its operands.
Found: TypeAlias = tuple[Summing, Sequence[jax.Array]]


def computes(operation: Callable[..., Found | None]) -> Callable[..., jax.Array | None]:
    """Returns the function that computes an operation, or returns None if the engine has no call.

    Args:
        operation: Takes the operands, and parameters by their names. The function takes
            ``axis_names`` too (``computed``).
    """

    @functools.wraps(operation)
    def compute(*operands: Any, axis_names: Sequence[Any] = (), **params: Any) -> jax.Array | None:
        found = operation(*operands, **params)
        return None if found is None else computed(*found, axis_names)

    return compute


def computed(
    operation: Operation, operands: Sequence[jax.Array], axis_names: Sequence[Any] = ()
) -> jax.Array | None:
    """Returns the results of an operation; None if the engine cannot share it among the devices.

    The devices along ``axis_names``, mesh axes of a ``shard_map``, have operands of their own,
    which are terms of one sum.
    """
    if 0 in (size for each in operands for size in each.shape):
        if not isinstance(operation, Summing) or operation.once:
            return None
        empty = operation.call(*operands).result
        return lax.full(empty.shape, 0, empty.dtype)
    number = scope.devices()
    if axis_names:
        # XLA partitions the axes that a shard_map leaves to it, in another way.
        if number > 1 or not isinstance(operation, Summing):
            return None
        group = Devices(tuple(axis_names))
        add = lowering.native(lambda *own: devices.add_exactly(operation, own, group))
        result: jax.Array = add(*operands)
        return result
    return call(operation, operands, number)
