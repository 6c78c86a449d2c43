"""Sums over the devices of a ``shard_map``, joined with the sums of each device.

Each device rounds its own sum before ``psum`` adds those of all, so the number of devices would
show. ``push`` moves each ``psum`` to where its terms arise. Both sums are then one
equation, which this module lowers, and which is rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir

from impl._core.jax_internals import jaxprs, lowering, tags
from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._mode import modes
from impl._mode.modes import Mode
from impl._portable import entries
from impl._portable.device_sums import equations, push
from impl._portable.device_sums.equations import Names
from impl._portable.device_sums.shardings import UNKNOWN, Sharding
from impl._portable.rule import RULES, Target
from impl._reading.control_flow import every_jaxpr


def _lower_whole(context: Any, *operands: Any, name: str, params: Any, **names: Names) -> Any:
    record, target = RULES[name], Target.of(context)
    over_devices: Any = record.over_devices
    keywords = {**dict(params), **names, **record.keywords(target)}
    function = functools.partial(over_devices, **keywords)

    def run(*operands: jax.Array) -> jax.Array:
        result: jax.Array = fence(function(*operands))
        return result

    rule = mlir.lower_fun(run, multiple_results=False)
    operands = tuple(entries.sealed(context, operands))
    with arithmetic.wide(), arithmetic.where_subnormals(are_kept=target.flushes):
        return rule(lowering.natively(context), *operands)


mlir.register_lowering(equations.whole_p, _lower_whole)
mlir.register_lowering(equations.same_p, lambda _, value, **__: [value])


def _part(
    value: jax.Array, *, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool
) -> jax.Array:
    size = value.shape[scatter_dimension] // axis_size
    start = lax.axis_index(axis_name) * size
    part = lax.dynamic_slice_in_dim(value, start, size, scatter_dimension)
    return part if tiled else lax.squeeze(part, (scatter_dimension,))


def _lower_part(context: Any, value: Any, *, axis_index_groups: None, **params: Any) -> Any:
    del axis_index_groups
    rule = mlir.lower_fun(functools.partial(_part, **params), multiple_results=False)
    return rule(lowering.natively(context), value)


mlir.register_lowering(equations.part_p, _lower_part)


def _asks(jaxpr: Any) -> bool:
    """Returns whether a scope inside of a jaxpr asks for the guarantee ``portable``."""
    for equation in jaxprs.opened(jaxpr).eqns:
        mode: Mode | None = tags.of(equation)
        if mode is not None and mode.portable:
            return True
        if any(map(_asks, every_jaxpr(equation))):
            return True
    return False


def with_joined_sums(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a ``shard_map`` whose sums over devices are joined with others.

    Args:
        params: The parameters of its equation.

    Returns:
        The parameters as they are, if neither the mode nor a scope inside asks for ``portable``.
    """
    if not (modes.current().portable or _asks(params["jaxpr"])):
        return dict(params)
    mesh, jaxpr = params["mesh"], params["jaxpr"]
    own = params["newly_manual_axes"]
    manual = own | set(mesh.manual_axes)
    sizes = {name: size for name, size in mesh.shape.items() if name in manual}
    outer = dict.fromkeys(manual - own, UNKNOWN)
    inputs: list[Sharding] = [
        {**outer, **{a: d for a, d in jaxprs.cut_axes(spec).items() if a in own}}
        for spec in params["in_specs"]
    ]
    if all(size == 1 for size in sizes.values()):
        return dict(params)
    new = push.rewritten(jaxprs.opened(jaxpr), inputs, sizes)
    return {**params, "jaxpr": jaxprs.reclosed(jaxpr, new)}
