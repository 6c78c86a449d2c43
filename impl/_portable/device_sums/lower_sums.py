"""Sums over the devices of a ``shard_map``, joined with the sums of each device.

Each device rounds its own sum before ``psum`` adds those of all, so the number of devices would
show. ``push`` moves each ``psum`` to where its terms arise. Both sums are then one
equation, which this module lowers, and which is rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir

from impl._core.jax_internals import jaxprs, lowering, tags
from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl._exact.sums import reduction, scatter
from impl._lowerings import _partitioning
from impl._mode import modes
from impl._mode.modes import Mode
from impl._portable import entries, functions
from impl._portable.device_sums import equations, push
from impl._portable.device_sums.equations import Names
from impl._portable.device_sums.states import OTHER, State
from impl._reading.control_flow import every_jaxpr


def _product(*operands: jax.Array, out_sharding: Any = None, **params: Any) -> jax.Array:
    del out_sharding
    return dot_general.dot_general(*operands, **params)


def _convolution(*operands: jax.Array, out_sharding: Any = None, **params: Any) -> jax.Array:
    del out_sharding
    return convolution.conv_general_dilated(*operands, **params)


def _scatter(*operands: jax.Array, **params: Any) -> jax.Array:
    kept = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode", "axis_names")
    return scatter.scatter_add(*operands, **{name: params[name] for name in kept})


def _sum(value: jax.Array, *, axes: Any, axis_names: Names, **_: Any) -> jax.Array:
    return reduction.reduce_sum(value, tuple(axes), axis_names=axis_names)


#: The function of each operation whose terms devices share.
_FUNCTIONS: Mapping[str, Callable[..., jax.Array]] = {
    "conv_general_dilated": _convolution,
    "dot_general": _product,
    "reduce_sum": _sum,
    "scatter-add": _scatter,
}


def _lower_whole(context: Any, *operands: Any, name: str, params: Any, **names: Names) -> Any:
    function: Callable[..., Any] = functools.partial(_FUNCTIONS[name], **dict(params), **names)
    platforms = lowering.platforms(context)
    function = functions.on_platforms(
        name, function, platforms, is_partitioned=_partitioning.is_partitioned(context)
    )
    are_kept = arithmetic.are_kept_on(platforms)

    def run(*operands: jax.Array) -> jax.Array:
        return fence(function(*operands))

    rule = mlir.lower_fun(run, multiple_results=False)
    operands = tuple(entries.sealed(context, operands))
    with arithmetic.wide(), arithmetic.where_subnormals(are_kept=are_kept):
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
    outer = dict.fromkeys(manual - own, OTHER)
    inputs: list[State] = [
        {**outer, **{a: d for a, d in jaxprs.cut_axes(spec).items() if a in own}}
        for spec in params["in_specs"]
    ]
    if all(size == 1 for size in sizes.values()):
        return dict(params)
    new = push.rewritten(jaxprs.opened(jaxpr), inputs, sizes)
    return {**params, "jaxpr": jaxprs.reclosed(jaxpr, new)}
