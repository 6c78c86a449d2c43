"""Gather along an axis, whose transpose is scatter-accumulate; scatters have it as a derivative."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir, xla

from impl._core import jax_internals
from impl._core.axes import at_least_32_bits, elements_at, is_inside
from impl._core.jax_internals import Primitive
from impl._core.jax_internals.lowering import Traced
from impl._core.lax_functions import filled, where
from impl._core.shard_axes import aligned, vary_like
from impl._lowerings import _partitioning
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert
from impl._primitives.scatter_accumulate import merge_batches, primitives, scatter_accumulate

gather_p = Primitive("samebits_gather")


def gather(operand: jax.Array, indices: jax.Array, *, pullback: Decision) -> jax.Array:
    """Reads elements of ``operand`` along its middle axis.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. An index outside [0, size) reads
            NaN, or the value of ``jax.numpy``'s fill mode for other types.
        pullback: The decision of the gradient, made in the forward pass.

    Returns:
        Shape [outer, n, inner].
    """
    return gather_p.bind(*aligned(operand, indices), pullback=pullback)  # type: ignore[no-any-return]


def _abstract(operand: Any, indices: Any, *, pullback: Decision) -> Any:
    return jax_internals.type_of(operand, (operand, 0), (indices, 1), (operand, 2))


def _lower(operand: jax.Array, indices: jax.Array) -> jax.Array:
    outer, size, inner = operand.shape
    if 0 in (outer, indices.shape[1], inner):
        empty = jnp.zeros((outer, indices.shape[1], inner), operand.dtype)
        return vary_like(empty, operand, indices)
    if size == 0:
        # No index is valid. Read beyond the end of an axis that has one element instead.
        operand = jnp.zeros((operand.shape[0], 1, operand.shape[2]), operand.dtype)
        size = 1
        indices = jnp.ones_like(indices)
    index = at_least_32_bits(indices)
    inside = is_inside(index, size)
    index = jax.lax.select(inside, index, filled(index, 0))
    if index.dtype.itemsize > 4 and size < jnp.iinfo(jnp.int32).max:
        index = index.astype(jnp.int32)
    # lax.gather itself would find indices out of range by a reduction.
    out = elements_at(operand, index)
    fill = filled(out, _fill_value(out.dtype))
    inside = jax.lax.broadcast_in_dim(inside, out.shape, (0, 1, 2))
    return jax.lax.select(inside, out, fill)


def _fill_value(dtype: Any) -> Any:
    """Returns the value that ``jax.numpy`` reads out of range."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if dtype == jnp.bool_:
        return True
    info = jnp.iinfo(dtype)
    return info.min if info.min < 0 else info.max


def _lower_as_bits(operand: jax.Array, indices: jax.Array) -> jax.Array:
    out: jax.Array = _partitioning.as_bits(_lower)(operand, indices)
    if not jnp.issubdtype(operand.dtype, jnp.inexact):
        return out
    inside = (indices >= 0) & (indices < operand.shape[1])
    return where(inside, out, jnp.full((), jnp.nan, operand.dtype))


#: Traced once for a shape.
_lowered, _lowered_as_bits = (Traced(each) for each in (_lower, _lower_as_bits))


def _lowering_rule(context: Any, *args: Any, pullback: Decision) -> Any:
    function = _lowered_as_bits if _partitioning.is_partitioned(context) else _lowered
    return _partitioning.lower(
        function, _partitioning.LEFT_TO_XLA, context, *args, multiple_results=False
    )


def _jvp(primals: Any, tangents: Any, *, pullback: Decision) -> Any:
    operand, indices = primals
    out = gather(operand, indices, pullback=pullback)
    if type(tangents[0]) is ad.Zero:
        return out, _common.zero_tangent(out)
    return out, gather(tangents[0], indices, pullback=pullback)


def _transpose(cotangent: Any, operand: Any, indices: Any, *, pullback: Decision) -> Any:
    if type(cotangent) is ad.Zero:
        return ad.Zero(operand.aval), None
    initial = vary_like(ad.instantiate_zeros(ad.Zero(operand.aval)), cotangent)
    cotangent = alert(cotangent, pullback)
    out = scatter_accumulate(initial, indices, cotangent, decision=pullback, empty=True)
    return out, None


def _transpose_scatter(
    cotangent: Any, operand: Any, indices: Any, updates: Any, *, decision: Decision, **_: Any
) -> Any:
    zero = type(cotangent) is ad.Zero
    of_operand: Any = None
    of_updates: Any = None
    if ad.is_undefined_primal(operand):
        of_operand = ad.Zero(operand.aval) if zero else cotangent
    if ad.is_undefined_primal(updates):
        of_updates = ad.Zero(updates.aval)
        if not zero:
            of_updates = _cotangent_of_updates(cotangent, indices, decision)
            of_updates = jax_internals.shard_like(of_updates, updates.aval)
    return of_operand, None, of_updates


def _cotangent_of_updates(
    cotangent: jax.Array, indices: jax.Array, decision: Decision
) -> jax.Array:
    """Returns the cotangent of each update: its destination's, or 0 if the update was dropped."""
    values = gather(cotangent, indices, pullback=decision)
    inside = (indices >= 0) & (indices < cotangent.shape[1])
    return where(inside, values, jnp.zeros_like(values))


def _batch(args: Any, dims: Any, *, pullback: Decision) -> Any:
    size = _common.batch_size(args, dims)
    operand, indices = merge_batches(args, dims, size, batched=(0,))
    out = gather(operand, indices, pullback=pullback)
    return _common.split_batch(out, size, _common.outer_length(args[0], dims[0])), 0


gather_p.def_impl(functools.partial(xla.apply_primitive, gather_p))
gather_p.def_abstract_eval(_abstract)
mlir.register_lowering(gather_p, _lowering_rule)
ad.primitive_jvps[gather_p] = _jvp
ad.primitive_transposes[gather_p] = _transpose
ad.primitive_transposes[primitives["add"]] = _transpose_scatter
batching.primitive_batchers[gather_p] = _batch
