"""Scatter-assign along an axis: of several contributions to one element, one stays."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir, xla

from impl._core import jax_internals
from impl._core.jax_internals import Primitive
from impl._core.jax_internals.lowering import Traced
from impl._core.lax_functions import number, where
from impl._core.shard_axes import aligned
from impl._lowerings import _partitioning
from impl._lowerings import scatter_assign as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.scatter_accumulate import merge_batches

assign_p = Primitive("samebits_scatter_assign")


def scatter_assign(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, decision: Decision
) -> jax.Array:
    """Writes ``updates`` to ``operand`` along its middle axis.

    Of several updates of one element, the one with the highest position stays on the ordered path,
    and any one on the atomic path. Derivatives follow the same choice: an element has the tangent
    of the update that stayed, and an update that did not stay has the gradient 0.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. Updates whose index is outside
            [0, size) are dropped.
        updates: Shape [outer, n, inner], of the operand's dtype.
        decision: The decision of this call. The caller gives its alert.

    Returns:
        Shape [outer, size, inner].
    """
    if updates.size == 0 or operand.size == 0:
        return operand
    writer = writers(indices, operand.shape[1], decision=decision)
    operands = aligned(operand, indices, updates, writer)
    return assign_p.bind(*operands)  # type: ignore[no-any-return]


def writers(indices: jax.Array, size: int, *, decision: Decision) -> jax.Array:
    """Finds the update that stays at each element.

    Args:
        indices: Integers, shape [outer, n, inner]; those outside [0, size) write nowhere.
        size: Number of elements along the axis.
        decision: The decision of this call.

    Returns:
        Position of the update along the middle axis, or -1 where there is none; int32, shape
        [outer, size, inner].
    """
    return writers_p.bind(indices, size=size, decision=decision)  # type: ignore[no-any-return]


def _abstract_writers(indices: Any, *, size: int, decision: Decision) -> Any:
    int32 = jnp.dtype(jnp.int32)
    return jax_internals.type_of(indices, (indices, 0), size, (indices, 2), dtype=int32)


def _jvp_of_writers(primals: Any, tangents: Any, **params: Any) -> Any:
    out = writers(*primals, **params)
    return out, _common.zero_tangent(out)


def _batch_writers(args: Any, dims: Any, *, size: int, decision: Decision) -> Any:
    indices = _common.batch_to_front(args[0], dims[0], args[0].shape[dims[0]])
    out = writers(_common.merge_batch(indices), size, decision=decision)
    return _common.split_batch(out, indices.shape[0], indices.shape[1]), 0


def _lower(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, writer: jax.Array
) -> jax.Array:
    del indices
    none = number(writer, 0)
    taken = lowerings.take(updates, lax.max(writer, none))
    return where(lax.ge(writer, none), taken, operand)


#: Traced once for a shape.
_lowered, _lowered_as_bits = Traced(_lower), Traced(_partitioning.as_bits(_lower))


def _lowering_rule(context: Any, *args: Any) -> Any:
    is_partitioned = _partitioning.is_partitioned(context)
    function = _lowered_as_bits if is_partitioned else _lowered
    return _partitioning.lower(
        function, _partitioning.LEFT_TO_XLA, context, *args, multiple_results=False
    )


def _jvp(primals: Any, tangents: Any) -> Any:
    _, indices, _, writer = primals
    out = assign_p.bind(*primals)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    operand_dot, updates_dot = map(ad.instantiate_zeros, (tangents[0], tangents[2]))
    return out, assign_p.bind(operand_dot, indices, updates_dot, writer)


def _transpose(cotangent: Any, operand: Any, indices: Any, updates: Any, writer: Any) -> Any:
    of_operand: Any = None
    of_updates: Any = None
    zero = type(cotangent) is ad.Zero
    if ad.is_undefined_primal(operand):
        of_operand = ad.Zero(operand.aval)
        if not zero:
            of_operand = where(writer >= 0, jnp.zeros_like(cotangent), cotangent)
    if ad.is_undefined_primal(updates):
        of_updates = ad.Zero(updates.aval)
        if not zero:
            of_updates = _cotangent_of_updates(cotangent, indices, writer)
    return of_operand, None, of_updates, None


def _cotangent_of_updates(cotangent: jax.Array, indices: jax.Array, writer: jax.Array) -> jax.Array:
    """Returns the cotangent of each update: its destination's if the update stayed, else 0."""
    size = cotangent.shape[1]
    inside = (indices >= 0) & (indices < size)
    destination = where(inside, indices, 0)
    position = jnp.arange(indices.shape[1], dtype=jnp.int32)[None, :, None]
    stayed = inside & (lowerings.take(writer, destination) == position)
    values = lowerings.take(cotangent, destination)
    return where(stayed, values, jnp.zeros_like(values))


def _batch(args: Any, dims: Any) -> Any:
    size = _common.batch_size(args, dims)
    operand, indices, updates, writer = merge_batches(args, dims, size, batched=(0, 2))
    out = assign_p.bind(operand, indices, updates, writer)
    return _common.split_batch(out, size, _common.outer_length(args[0], dims[0])), 0


assign_p.def_impl(functools.partial(xla.apply_primitive, assign_p))
assign_p.def_abstract_eval(lambda operand, *_: operand.update(weak_type=False))
mlir.register_lowering(assign_p, _lowering_rule)
ad.primitive_jvps[assign_p] = _jvp
ad.primitive_transposes[assign_p] = _transpose
batching.primitive_batchers[assign_p] = _batch

writers_p = _common.new_primitive(
    "samebits_scatter_writers",
    _abstract_writers,
    _common.Lowerings.without_kernel(lowerings.writers_cpu, lowerings.writers_xla),
    axes=Axes("o.i -> o.i"),
)
batching.primitive_batchers[writers_p] = _batch_writers
ad.primitive_jvps[writers_p] = _jvp_of_writers
