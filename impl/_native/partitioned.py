"""Calls of the engine ``native``, also in a program that XLA partitions over devices.

XLA cannot look into a call, so each call has a rule of sharding (``custom_partitioning``). The
names of an operation's axes are the rule: the array that is cut into the most tiles decides how all
arrays are cut, axis by axis. Where a summed axis is cut, the devices add their sums exactly. For a
gradient [k, m] = [b, k] x [b, m] over 8 devices that share the batch b::

    operands    tiles [8, 1] and [8, 1]
    result      replicated; the groups of devices that share sums are {0, ..., 7}
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import batching, mlir

from impl._core import jax_internals
from impl._core.jax_internals import Primitive, lowering, partitions, shardings
from impl._core.jax_internals.shardings import Tiling, finest
from impl._native import devices, scope
from impl._native.operation import Names, Operation, Summing
from impl._version import __version__

_Tree = TypeVar("_Tree")

#: The only axis of the mesh that a device's part is traced in: all devices, by their numbers.
_DEVICES = "samebits_devices"
#: How the names begin that the rule of Shardy has for axes that each device needs whole.
_WHOLE = "whole_"


@dataclasses.dataclass(frozen=True)
class _Numbered(devices.Group):
    """Groups of devices by their numbers in the program.

    Attributes:
        groups: The numbers of the devices of each group.
    """

    groups: tuple[tuple[int, ...], ...]

    @property
    def number(self) -> int:  # type: ignore[override]  # an attribute that is computed
        return len(self.groups[0])

    def sum(self, value: _Tree) -> _Tree:
        total: _Tree = lax.psum(value, _DEVICES, axis_index_groups=self.groups)
        return total

    def is_first(self) -> jax.Array:
        own = lax.axis_index(_DEVICES)
        are_equal = (lax.eq(own, np.int32(group[0])) for group in self.groups)
        return functools.reduce(lax.bitwise_or, are_equal)


_call_p = Primitive(scope.CALL)
_call_p.def_abstract_eval(
    lambda *avals, operation, devices: _shape(operation, avals)  # noqa: ARG005  # of the primitive
)


def call(operation: Operation, operands: Sequence[jax.Array], devices: int) -> jax.Array:
    """Returns the results of an operation, as one equation.

    Args:
        operation: The operation.
        operands: The whole operands.
        devices: The number of devices that XLA may partition the program over.
    """
    result: jax.Array = _call_p.bind(*operands, operation=operation, devices=devices)
    return result


def _shape(operation: Operation, avals: Sequence[Any]) -> Any:
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in avals]
    result = jax.eval_shape(operation.nearest, *shapes)
    return jax.core.ShapedArray(result.shape, result.dtype)


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
        return mlir.lower_fun(operation.nearest, multiple_results=False)(context, *operands)
    shardings.check_partitioner(context)
    context = shardings.with_devices(context)
    rule = mlir.lower_fun(_cut(operation, devices), multiple_results=False)
    results = rule(context, *operands)
    text = f"{__version__} {operation!r} {context.avals_in} {devices}"
    partitions.name_by_content(context, results, lambda: text)
    return results


batching.primitive_batchers[_call_p] = _batch
mlir.register_lowering(_call_p, _lower, platform="cpu")


def _cut(operation: Operation, number: int) -> Callable[..., jax.Array]:
    """Returns an operation as one of ``custom_partitioning``.

    Args:
        operation: The operation.
        number: The number of devices.
    """
    x64 = jax_internals.enables_x64()
    summed = operation.summed if isinstance(operation, Summing) else frozenset[str]()

    def tilings(shapes: Any, out: Any) -> Tiling:
        arrays = zip((*shapes, out), (*operation.operands, operation.result), strict=True)
        return finest([Tiling.of(array, names) for array, names in arrays])

    def partition(mesh: Any, shapes: Any, out: Any) -> Any:
        del mesh
        tiling = tilings(shapes, out)
        groups = tiling.groups_along(summed)

        def of_a_device(*operands: jax.Array) -> jax.Array:
            # JAX traces this when it compiles, under the settings and the mesh of that time.
            with shardings.no_mesh(), jax.enable_x64(x64):
                part: jax.Array = lowering.native(compute)(
                    *map(shardings.without_sharding, operands)
                )
                return part

        def compute(*operands: jax.Array) -> jax.Array:
            if groups is None or not isinstance(operation, Summing):
                return operation.nearest(*operands)
            terms = [
                _within(tiling, each, shape.shape, names, summed)
                for each, shape, names in zip(operands, shapes, operation.operands, strict=True)
            ]
            return devices.add_exactly(operation, terms, _Numbered(groups))

        flat = jax.sharding.AbstractMesh((number,), (_DEVICES,))
        cuts = tuple(map(tiling.along, operation.operands))
        return flat, of_a_device, tiling.along(operation.result), cuts

    def infer(mesh: Any, shapes: Any, out: Any) -> Any:
        del mesh
        return tilings(shapes, out).along(operation.result)

    words = [_factors(n, names) for n, names in enumerate((*operation.operands, operation.result))]
    rule = ", ".join(map(" ".join, words[:-1])) + " -> " + " ".join(words[-1])
    whole = tuple(name for word in words for name in word if name.startswith(_WHOLE))

    @custom_partitioning
    @jax.jit
    def run(*operands: jax.Array) -> jax.Array:
        return operation.nearest(*operands)

    run.def_partition(
        partition,
        infer,
        decode_shardings=False,
        sharding_rule=rule,
        need_replication_factors=whole,
    )
    cut: Callable[..., jax.Array] = run
    return cut


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
        if size == length or length % size == 0:
            continue
        numbers = np.array(tiling.numbers_along(name), np.int32)
        number = lax.dynamic_index_in_dim(numbers, lax.axis_index(_DEVICES), keepdims=False)
        position = lax.add(
            lax.broadcasted_iota(np.int32, value.shape, axis), number * np.int32(size)
        )
        is_inside = lax.lt(position, lax.full_like(position, length))
        value = lax.select(is_inside, value, lax.full_like(value, 0))
    return value


def _factors(number: int, names: Names) -> list[str]:
    """Returns the names of axes for the rule of Shardy, in which a whole axis has a name too."""
    return [name or f"{_WHOLE}{number}_{axis}" for axis, name in enumerate(names)]
