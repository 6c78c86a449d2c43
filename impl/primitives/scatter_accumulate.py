"""Scatter-accumulate along an axis: the one place where many writers meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl.decide import Decision
from impl.lowerings import scatter as lowerings
from impl.manual_axes import aligned
from impl.primitives import _core


def scatter_accumulate(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, decision: Decision
) -> jax.Array:
    """``operand`` with ``updates`` added along its middle axis.

    On the ordered path the additions are in the spec's panel order, for each element of the outer
    and inner axes by itself, so that batching does not change any bits.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. Updates whose index is outside
            [0, size) are dropped.
        updates: Shape [outer, n, inner], of the operand's dtype.
        decision: What each platform does. Alerts are the caller's business.

    Returns:
        Shape [outer, size, inner].
    """
    operands = aligned(operand, indices, updates)
    return scatter_p.bind(*operands, decision=decision)  # type: ignore[no-any-return]


def align(
    args: Sequence[jax.Array], dims: Sequence[int | None], size: int, mapped: Sequence[int]
) -> list[jax.Array]:
    """Folds a batch axis into the outer axis of [outer, n, inner] arrays.

    Args:
        args: The primitive's operands; the second holds indices.
        dims: Their batch dimensions.
        size: Length of the batch axis.
        mapped: Which operands to batch even where they are not; the indices are only if needed.
    """
    folded = []
    outer = _core.outer_length(args[0], dims[0])
    for place, (arg, dim) in enumerate(zip(args, dims, strict=True)):
        if dim is None and place not in mapped and arg.shape[0] == 1:
            folded.append(arg)  # shared by the whole batch
            continue
        batched = _core.move_batch(arg, dim, size)
        if place not in mapped and batched.shape[1] != outer:
            batched = jnp.broadcast_to(batched, (size, outer, *batched.shape[2:]))
        folded.append(_core.fold(batched))
    return folded


def _abstract(operand: Any, indices: Any, updates: Any, *, decision: Decision) -> Any:
    return operand.update(weak_type=False)


def _jvp(primals: Any, tangents: Any, *, decision: Decision) -> Any:
    operand, indices, updates = primals
    out = scatter_accumulate(operand, indices, updates, decision=decision)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _core.zero_tangent(out)
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    return out, scatter_accumulate(operand_dot, indices, updates_dot, decision=decision)


def _batch(args: Any, dims: Any, *, decision: Decision) -> Any:
    size = _core.batch_size(args, dims)
    operand, indices, updates = align(args, dims, size, mapped=(0, 2))
    out = scatter_accumulate(operand, indices, updates, decision=decision)
    return _core.unfold(out, size, _core.outer_length(args[0], dims[0])), 0


scatter_p = _core.new_primitive(
    "samebits_scatter_accumulate",
    _abstract,
    {
        "atomic": _core.Lowerings(
            cpu=lowerings.xla_atomic, xla=lowerings.xla_atomic, kernel=lowerings.kernel_atomic
        ),
        "ordered": _core.Lowerings(
            cpu=lowerings.cpu_panels, xla=lowerings.xla_chains, kernel=lowerings.kernel_chains
        ),
    },
)
ad.primitive_jvps[scatter_p] = _jvp
# Its transpose is with gather's, in impl.primitives.gather: each is made of the other.
batching.primitive_batchers[scatter_p] = _batch
