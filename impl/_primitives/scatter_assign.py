"""Scatter-assign along an axis: of several writes to one place, one stays."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from impl._core.shard_axes import aligned
from impl._lowerings import scatter_assign as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.scatter_accumulate import align

assign_p = Primitive("samebits_scatter_assign")


def scatter_assign(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, decision: Decision
) -> jax.Array:
    """``operand`` with ``updates`` written along its middle axis.

    Of several updates of one place the one with the highest position stays on the ordered path,
    and any on the atomic path. Derivatives go by the same choice: a place has the tangent of the
    update that stayed, and an update that did not stay has no part in the result.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. Updates whose index is outside
            [0, size) are dropped.
        updates: Shape [outer, n, inner], of the operand's dtype.
        decision: What each platform does. Alerts are the caller's business.

    Returns:
        Shape [outer, size, inner].
    """
    if updates.size == 0 or operand.size == 0:
        return operand
    stays = writers(indices, operand.shape[1], decision=decision)
    operands = aligned(operand, indices, updates, stays)
    return assign_p.bind(*operands)  # type: ignore[no-any-return]


def writers(indices: jax.Array, size: int, *, decision: Decision) -> jax.Array:
    """Which update of each place stays.

    Args:
        indices: Integers, shape [outer, n, inner]; those outside [0, size) are of no place.
        size: Number of places.
        decision: What each platform does.

    Returns:
        Position of the update along the middle axis, or -1 where there is none; int32, shape
        [outer, size, inner].
    """
    return writers_p.bind(indices, size=size, decision=decision)  # type: ignore[no-any-return]


def _abstract_writers(indices: Any, *, size: int, decision: Decision) -> Any:
    shape = (indices.shape[0], size, indices.shape[2])
    return indices.update(shape=shape, dtype=jnp.dtype(jnp.int32), weak_type=False)


def _batch_writers(args: Any, dims: Any, *, size: int, decision: Decision) -> Any:
    indices = _common.move_batch(args[0], dims[0], args[0].shape[dims[0]])
    out = writers(_common.fold(indices), size, decision=decision)
    return _common.unfold(out, indices.shape[0], indices.shape[1]), 0


def _lower(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, stays: jax.Array
) -> jax.Array:
    del indices
    return jnp.where(stays >= 0, lowerings.take(updates, jnp.maximum(stays, 0)), operand)


def _jvp(primals: Any, tangents: Any) -> Any:
    _, indices, _, stays = primals
    out = assign_p.bind(*primals)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    operand_dot, updates_dot = map(ad.instantiate_zeros, (tangents[0], tangents[2]))
    return out, assign_p.bind(operand_dot, indices, updates_dot, stays)


def _transpose(cotangent: Any, operand: Any, indices: Any, updates: Any, stays: Any) -> Any:
    of_operand = of_updates = None
    zero = type(cotangent) is ad.Zero
    if ad.is_undefined_primal(operand):
        kept = None if zero else jnp.where(stays >= 0, jnp.zeros_like(cotangent), cotangent)
        of_operand = ad.Zero(operand.aval) if zero else kept
    if ad.is_undefined_primal(updates):
        of_updates = ad.Zero(updates.aval) if zero else _read_back(cotangent, indices, stays)
    return of_operand, None, of_updates, None


def _read_back(cotangent: jax.Array, indices: jax.Array, stays: jax.Array) -> jax.Array:
    """The cotangent of each update: that of its place if it stayed there, else 0."""
    size = cotangent.shape[1]
    inside = (indices >= 0) & (indices < size)
    places = jnp.where(inside, indices, 0)
    position = jnp.arange(indices.shape[1], dtype=jnp.int32)[None, :, None]
    stayed = inside & (lowerings.take(stays, places) == position)
    read = lowerings.take(cotangent, places)
    return jnp.where(stayed, read, jnp.zeros_like(read))


def _batch(args: Any, dims: Any) -> Any:
    size = _common.batch_size(args, dims)
    operand, indices, updates, stays = align(args, dims, size, mapped=(0, 2))
    out = assign_p.bind(operand, indices, updates, stays)
    return _common.unfold(out, size, _common.outer_length(args[0], dims[0])), 0


assign_p.def_impl(functools.partial(xla.apply_primitive, assign_p))
assign_p.def_abstract_eval(lambda operand, *_: operand.update(weak_type=False))
mlir.register_lowering(assign_p, mlir.lower_fun(_lower, multiple_results=False))
ad.primitive_jvps[assign_p] = _jvp
ad.primitive_transposes[assign_p] = _transpose
batching.primitive_batchers[assign_p] = _batch

writers_p = _common.new_primitive(
    "samebits_scatter_writers",
    _abstract_writers,
    {
        "atomic": _common.Lowerings(
            cpu=lowerings.xla_any, xla=lowerings.xla_any, kernel=lowerings.kernel_any
        ),
        "ordered": _common.Lowerings(
            cpu=lowerings.cpu_last, xla=lowerings.xla_last, kernel=lowerings.kernel_last
        ),
    },
)
batching.primitive_batchers[writers_p] = _batch_writers
ad.primitive_jvps[writers_p] = lambda primals, tangents, **params: _without_tangent(
    writers(*primals, **params)
)


def _without_tangent(out: jax.Array) -> Any:
    return out, _common.zero_tangent(out)
