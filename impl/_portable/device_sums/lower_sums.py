"""Lowers a ``shard_map`` with joined sums over devices, and the primitives that stand for them.

The lowering rule of ``shard_map`` passes the parameters of its equation to ``with_joined_sums``,
which calls ``push``. A joined sum is lowered as ``Rule.over_devices`` of its operation computes
it, on all the devices that its parameters name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir

from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._jax import jaxprs, lowering, tags
from impl._mode import modes
from impl._mode.modes import Mode
from impl._portable import entries
from impl._portable.device_sums import draft, push
from impl._portable.device_sums.draft import Names
from impl._portable.device_sums.shardings import Sharding, unknown
from impl._portable.rule import RULES, Target
from impl._reading.control_flow import every_jaxpr
from impl._soft_float64 import engines


def _lower_whole(
    context: Any, *operands: Any, name: str, params: Any, axis_names: Names, result: Any
) -> Any:
    """Lowers a joined sum.

    Args:
        context: The context of the lowering rule.
        *operands: The operands of this device.
        name: The name of the operation.
        params: The parameters of its equation, as pairs.
        axis_names: The mesh axes over which the elements that it adds are sharded.
        result: The type of the result.
    """
    del result
    record, target = RULES[name], Target.of(context)
    over_devices: Any = record.over_devices
    keywords = {**dict(params), "axis_names": axis_names, **record.keywords(target)}
    function = functools.partial(over_devices, **keywords)

    def run(*operands: jax.Array) -> jax.Array:
        result: jax.Array = fence(function(*operands))
        return result

    rule = engines.Lowered(context, run, multiple_results=False)
    operands = tuple(entries.sealed(context, operands))
    with (
        arithmetic.wide(),
        arithmetic.where_subnormals(are_kept=target.flushes),
        lowering.without_varying_types(lowering.natively(context)) as own,
    ):
        return rule(own, *operands)


mlir.register_lowering(draft.whole_p, _lower_whole)
mlir.register_lowering(draft.same_p, lambda _, value, **__: [value])


def _part(
    value: jax.Array, *, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool
) -> jax.Array:
    """Returns the slice that ``psum_scatter`` gives this device, of the whole sum."""
    size = value.shape[scatter_dimension] // axis_size
    start = lax.axis_index(axis_name) * size
    part = lax.dynamic_slice_in_dim(value, start, size, scatter_dimension)
    return part if tiled else lax.squeeze(part, (scatter_dimension,))


def _lower_part(context: Any, value: Any, *, axis_index_groups: None, **params: Any) -> Any:
    """Lowers the slice of a sum; a sum in groups of devices is not joined."""
    del axis_index_groups
    rule = mlir.lower_fun(functools.partial(_part, **params), multiple_results=False)
    return rule(lowering.natively(context), value)


mlir.register_lowering(draft.part_p, _lower_part)


def _asks_for_portable(jaxpr: Any) -> bool:
    """Returns whether a scope inside of a jaxpr asks for the guarantee ``portable``."""
    for equation in jaxprs.opened(jaxpr).eqns:
        mode: Mode | None = tags.of(equation)
        if mode is not None and mode.portable:
            return True
        if any(map(_asks_for_portable, every_jaxpr(equation))):
            return True
    return False


def with_joined_sums(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a ``shard_map``, with joined sums in its body.

    Args:
        params: The parameters of its equation.

    Returns:
        The parameters as they are, if neither the mode nor a scope inside asks for ``portable``. A
        sum over one device is joined too: where it stands, it would make 0 of -0.
    """
    if not (modes.current().portable or _asks_for_portable(params["jaxpr"])):
        return dict(params)
    mesh, jaxpr = params["mesh"], params["jaxpr"]
    own = params["newly_manual_axes"]
    # The specs of a shard_map say nothing about the axes of a shard_map around it.
    outer = set(mesh.manual_axes) - own
    sizes = {name: size for name, size in mesh.shape.items() if name in own | outer}
    inputs: list[Sharding] = []
    for spec in params["in_specs"]:
        dimensions = jaxprs.cut_axes(spec).items()
        inputs.append({**unknown(outer), **{axis: d for axis, d in dimensions if axis in own}})
    new = push.rewritten(jaxprs.opened(jaxpr), inputs, sizes)
    return {**params, "jaxpr": jaxprs.reclosed(jaxpr, new)}
