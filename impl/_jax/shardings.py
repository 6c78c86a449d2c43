"""The shardings of types, of lowering rules, and of XLA.

Three descriptions meet here. On a mesh with explicit axes a type has a sharding
(``float32[16@x,4]``). A lowering rule may add a constraint of Shardy, the partitioner of JAX
(``sdy.sharding_constraint``). A rule of ``custom_partitioning`` gets and returns XLA's own
shardings: ``Tiling`` reads one, and makes the sharding of another array from it. For an array
[16, 4] with the axes "a" and "b", on a mesh of 4 x 2 devices::

    XLA's sharding           devices=[4,2]<=[8]                    tiles (4, 2)
    along(("a",))            devices=[4,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate
    along(("b", None))       devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate
    along((None, None))      replicated

The third line says: an array whose first axis is "b" has 2 tiles along it, the first of them on the
devices 0, 2, 4 and 6.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax._src.core import Primitive
from jax._src.interpreters import mlir as private_mlir
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import sdy  # type: ignore[attr-defined]
from jax.interpreters import batching, mlir

from impl._jax import exports

#: Names of the axes of an array; None for an axis that each device needs whole.
Names: TypeAlias = tuple[str | None, ...]


def no_mesh() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope without a mesh, in which types have no sharding.

    The device that a program is lowered for stays known.
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    return jax.sharding.use_abstract_mesh(mesh)


def is_local(context: Any) -> bool:
    """Returns whether a lowering rule is called inside a ``shard_map`` over all axes of a mesh."""
    axes = context.module_context.axis_context
    return hasattr(axes, "mesh") and set(axes.manual_axes) == set(axes.mesh.axis_names)


def is_partly_local(context: Any) -> bool:
    """Returns whether a lowering rule is called inside a ``shard_map`` over some axes of a mesh."""
    axes = context.module_context.axis_context
    return bool(getattr(axes, "manual_axes", ())) and not is_local(context)


def devices_of(context: Any) -> int:
    """Returns the number of devices over which XLA partitions the program of a lowering rule."""
    axes = context.module_context.axis_context
    return int(axes.mesh.size if hasattr(axes, "mesh") else getattr(axes, "num_devices", 1))


def is_unreduced(aval: Any) -> bool:
    """Returns whether the type says that each device holds one term of a sum."""
    spec = getattr(getattr(aval, "sharding", None), "spec", None)
    return bool(getattr(spec, "unreduced", ()))


def check_partitioner(context: Any) -> None:
    """Refuses a ``shard_map`` over some axes of a mesh if Shardy is off: XLA would crash."""
    if is_partly_local(context) and not jax.config.jax_use_shardy_partitioner:  # type: ignore[attr-defined]
        raise NotImplementedError(
            "inside a shard_map over some axes of a mesh, deterministic operations need the "
            "partitioner Shardy; set jax_use_shardy_partitioner to True"
        )


def without_shardings(context: Any) -> Any:
    """Returns the context of a lowering rule with types that have no sharding."""
    return context.replace(
        avals_in=[*map(_without_sharding, context.avals_in)],
        avals_out=[*map(_without_sharding, context.avals_out)],
    )


def with_devices(context: Any) -> Any:
    """Returns the context of a lowering rule with a device assignment.

    JAX leaves the assignment out unless a program has a primitive of a private set. The rule of
    ``custom_partitioning`` fails without the assignment, but only reads its length.
    """
    axes = context.module_context.axis_context
    if not hasattr(axes, "device_assignment") or axes.device_assignment is not None:
        return context
    axes = dataclasses.replace(axes, device_assignment=(jax.devices()[0],) * axes.num_devices)
    return context.replace(module_context=context.module_context.replace(axis_context=axes))


def _without_sharding(aval: Any) -> Any:
    return jax.core.ShapedArray(aval.shape, aval.dtype)


_without_sharding_p = Primitive("samebits_without_sharding")
_without_sharding_p.def_abstract_eval(_without_sharding)
mlir.register_lowering(_without_sharding_p, lambda _, value: [value])


def without_sharding(value: jax.Array) -> jax.Array:
    """Returns ``value`` with a type that has no sharding, inside a ``no_mesh()`` scope."""
    return _without_sharding_p.bind(value)  # type: ignore[no-any-return]  # a primitive is not typed


def _hint(name: str, lower: Callable[..., list[Any]]) -> Primitive:
    """Returns a primitive that returns its operand, and tells XLA's partitioner how to shard it."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda aval, **_: aval)
    primitive.def_impl(lambda value, **_: value)
    batching.defvectorized(primitive)
    mlir.register_lowering(primitive, lower)
    return primitive


def _cut_as_the_operands(context: Any, value: Any) -> list[Any]:
    uses_shardy = jax.config.jax_use_shardy_partitioner  # type: ignore[attr-defined]
    if exports(context) or is_local(context) or devices_of(context) < _DEVICES or not uses_shardy:
        return [value]
    forward = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _FORWARD)
    return [sdy.PropagationBarrierOp(value, forward).result]


#: The least number of devices over which a result was wrong: a mesh of three axes for products, and
#: of two for gathers.
_DEVICES = 8
#: The direction of Shardy from an operation to those that read its result.
_FORWARD = 1
_cut_as_the_operands_p = _hint("samebits_cut_as_the_operands", _cut_as_the_operands)


def cut_as_the_operands(product: jax.Array) -> jax.Array:
    """Returns the result of a product or a gather, sharded like the operands.

    Works around a fault of XLA, of which no upstream issue and no release without it is known.
    Shardy may shard the result like the operations that read it, and XLA's partitioner then gives
    wrong values over three axes of a mesh, if one axis shards both a contracted dimension and
    another dimension of the result.
    """
    cut: jax.Array = _cut_as_the_operands_p.bind(product)
    return cut


def _whole_on_each_device(context: Any, value: Any, axes: Sequence[int]) -> list[Any]:
    if is_local(context) or devices_of(context) == 1:
        return [value]
    return [whole_along(context, value, axes)]


_whole_p = _hint("samebits_kept_whole", _whole_on_each_device)
batching.primitive_batchers[_whole_p] = lambda values, dims, axes: (
    whole(values[0], [axis + (axis >= dims[0]) for axis in axes]),
    dims[0],
)


def whole(value: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns an array of which XLA's partitioner does not shard some axes."""
    result: jax.Array = _whole_p.bind(value, axes=tuple(axes))
    return result


def sends_zeros(length: Any, tiles: float) -> bool:
    """Returns whether XLA transfers an axis between devices by adding zeros to its elements.

    XLA does so if at least half of the devices hold no part of the axis; -0.0 becomes 0.0 then. A
    symbolic size (``jax.export``) may be as small.
    """
    return not isinstance(length, int) or 0 < 2 * length <= tiles


def with_data_on_devices(sharding: Any, shape: Sequence[int]) -> Any:
    """Returns a sharding under which XLA transfers no axis by adding zeros.

    A sharding is a hint and changes no value, so this may shard an axis over fewer devices.
    """
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return sharding
    cut = sharding.mesh.shape

    def kept(axis: Any, length: int) -> Any:
        names = axis if isinstance(axis, tuple) else (axis,)
        if axis is None or axis is jax.sharding.PartitionSpec.UNCONSTRAINED:
            return axis
        while sends_zeros(length, math.prod(cut[name] for name in names)):
            names = names[:-1]
        return names or None

    axes = [kept(axis, length) for axis, length in zip(sharding.spec, shape, strict=False)]
    return sharding.update(spec=sharding.spec.update(partitions=axes))


def whole_along(context: Any, value: Any, axes: Sequence[int]) -> Any:
    """Returns a value of a lowering rule that is not sharded along some axes.

    The sharding of the other axes is left to the partitioner.
    """
    rank = value.type.rank
    if jax.config.jax_use_shardy_partitioner:  # type: ignore[attr-defined]
        kinds = [sdy.DimensionShardingAttr.get([], is_closed=axis in axes) for axis in range(rank)]
        sharding = sdy.TensorShardingAttr.get(sdy.MeshAttr.get([]), kinds)
        return sdy.ShardingConstraintOp(value, sharding).result
    aval = jax.core.ShapedArray(value.type.shape, np.float32)
    others = {axis for axis in range(rank) if axis not in axes}
    sharding = xla_client.HloSharding.replicate().to_proto()
    return private_mlir.wrap_with_sharding_op(
        context, value, aval, sharding, unspecified_dims=others
    )


def replicated(value: Any) -> Any:
    """Returns a value of a lowering rule that is replicated, under Shardy."""
    axes = [sdy.DimensionShardingAttr.get([], is_closed=True)] * value.type.rank
    sharding = sdy.TensorShardingAttr.get(sdy.MeshAttr.get([]), axes)
    return sdy.ShardingConstraintOp(value, sharding).result


class _Sharding(jax.sharding.Sharding):
    """A sharding of XLA, in the form that a rule of ``custom_partitioning`` takes and returns."""

    def __init__(self, of_xla: Any) -> None:
        self._of_xla = of_xla

    def _to_xla_hlo_sharding(self, _: int) -> Any:
        return self._of_xla


@dataclasses.dataclass(frozen=True)
class Tiling:
    """The tiles that an array is cut into over devices.

    Attributes:
        tiles: The number of tiles along each axis of the array.
        names: The name of each axis; None for an axis that must have one tile.
        of_xla: XLA's sharding.
    """

    tiles: tuple[int, ...]
    names: Names
    of_xla: Any

    @staticmethod
    def replicated() -> Tiling:
        """Returns the tiling into one tile."""
        return Tiling((), (), xla_client.HloSharding.replicate())

    @staticmethod
    def of(array: jax.ShapeDtypeStruct, names: Names) -> Tiling | None:
        """Returns the tiling of an array that a rule of ``custom_partitioning`` gets."""
        if array.sharding is None:
            return None
        of_xla = array.sharding._to_xla_hlo_sharding(len(array.shape))  # noqa: SLF001  # no other
        if not of_xla.is_tiled():
            return None
        return Tiling(tuple(of_xla.tile_assignment_dimensions()[: len(names)]), names, of_xla)

    def along(self, names: Names) -> jax.sharding.Sharding:
        """Returns the sharding of another array whose axes of the same names have the same tiles.

        The other axes of that array have one tile each. Devices with the same tiles get the same
        data. The axes of an enclosing ``shard_map`` stay manual.
        """
        if not self.tiles:
            return _Sharding(self.of_xla)
        kind = type(self.of_xla.to_proto().type)
        grid = self._grid()
        rank = len(self.tiles)
        kinds = enumerate(self.of_xla.subgroup_types())
        manual = [rank + position for position, of in kinds if of == kind.MANUAL]
        same = [None if n is None or n not in self.names else self.names.index(n) for n in names]
        first = [axis for axis in (*same, *manual) if axis is not None]
        grid = grid.transpose(first + [axis for axis in range(grid.ndim) if axis not in first])
        tiles = [1 if axis is None else self.tiles[axis] for axis in same]
        rest = grid.shape[len(first) - len(manual) : len(first)]
        kinds_of_rest = [kind.MANUAL] * len(manual) + [kind.REPLICATED]
        grid = grid.reshape(*tiles, *rest, -1)
        return _Sharding(type(self.of_xla).subgroup_with_device_ordering(grid, kinds_of_rest))

    def groups_along(self, names: frozenset[str]) -> tuple[tuple[int, ...], ...] | None:
        """Returns the numbers of the devices that differ only in tiles along axes of these names.

        They are a group for each choice of the other tiles; None if no such axis is cut.
        """
        along = [d for d, name in enumerate(self.names[: len(self.tiles)]) if name in names]
        size = math.prod(self.tiles[d] for d in along)
        if size == 1:
            return None
        grid = np.moveaxis(self._grid(), along, range(len(along)))
        return tuple(tuple(map(int, group)) for group in grid.reshape(size, -1).T)

    def numbers_along(self, name: str) -> tuple[int, ...]:
        """Returns the number of the tile that each device has along an axis that is cut."""
        grid = self._grid()
        axis = self.names.index(name)
        numbers = np.empty(grid.size, np.int64)
        numbers[grid] = np.arange(grid.shape[axis]).reshape([-1] + [1] * (grid.ndim - axis - 1))
        return tuple(map(int, numbers))

    def _grid(self) -> Any:
        """Returns the numbers of the devices, by their tiles."""
        devices = np.asarray(self.of_xla.tile_assignment_devices())
        return devices.reshape(self.of_xla.tile_assignment_dimensions())


def finest(tilings: Sequence[Tiling | None]) -> Tiling:
    """Returns the tiling that cuts free axes into the most tiles."""
    cut, most_tiles = Tiling.replicated(), 0
    for tiling in tilings:
        if tiling is not None:
            pairs = zip(tiling.names, tiling.tiles, strict=True)
            tiles = math.prod(count for name, count in pairs if name is not None)
            if tiles > most_tiles:
                cut, most_tiles = tiling, tiles
    return cut
