"""Scatter-accumulate along an axis: the one place where many writers meet."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core import reductions
from impl._core.reductions import Reduction, ReductionName
from impl._core.shard_axes import aligned
from impl._lowerings import scatter_accumulate as lowerings
from impl._lowerings import scatter_accumulate_cpu, scatter_extreme
from impl._mode.decide import Decision, Path
from impl._primitives import _common


def scatter_accumulate(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    decision: Decision,
    by: ReductionName = "add",
) -> jax.Array:
    """``operand`` with ``updates`` combined with it along its middle axis.

    On the ordered path sums and products are in the spec's panel order, for each element of the
    outer and inner axes by itself, so that batching does not change any bits. Minima and maxima
    are the same in every order, and a NaN is the least and the greatest of all.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. Updates whose index is outside
            [0, size) are dropped.
        updates: Shape [outer, n, inner], of the operand's dtype.
        decision: What each platform does. Alerts are the caller's business.
        by: What to combine by.

    Returns:
        Shape [outer, size, inner].
    """
    operands = aligned(operand, indices, updates)
    return primitives[by].bind(*operands, decision=decision)  # type: ignore[no-any-return]


def align(
    args: Sequence[jax.Array], dims: Sequence[int | None], size: int, mapped: Sequence[int]
) -> list[jax.Array]:
    """Folds a batch axis into the outer axis of [outer, n, inner] arrays.

    Args:
        args: The primitive's operands.
        dims: Their batch dimensions.
        size: Length of the batch axis.
        mapped: Which operands to batch even where they are not; the others hold indices, and are
            only if needed.
    """
    folded = []
    outer = _common.outer_length(args[0], dims[0])
    for place, (arg, dim) in enumerate(zip(args, dims, strict=True)):
        if dim is None and place not in mapped and arg.shape[0] == 1:
            folded.append(arg)  # shared by the whole batch
            continue
        batched = _common.move_batch(arg, dim, size)
        if place not in mapped and batched.shape[1] != outer:
            batched = jnp.broadcast_to(batched, (size, outer, *batched.shape[2:]))
        folded.append(_common.fold(batched))
    return folded


def _abstract(operand: Any, indices: Any, updates: Any, *, decision: Decision) -> Any:
    return operand.update(weak_type=False)


def _jvp_of_sum(primals: Any, tangents: Any, *, decision: Decision) -> Any:
    operand, indices, updates = primals
    out = scatter_accumulate(operand, indices, updates, decision=decision)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    return out, scatter_accumulate(operand_dot, indices, updates_dot, decision=decision)


def _batch(by: ReductionName, args: Any, dims: Any, *, decision: Decision) -> Any:
    size = _common.batch_size(args, dims)
    operand, indices, updates = align(args, dims, size, mapped=(0, 2))
    out = scatter_accumulate(operand, indices, updates, decision=decision, by=by)
    return _common.unfold(out, size, _common.outer_length(args[0], dims[0])), 0


def _folded(reduction: Reduction) -> dict[Path, _common.Lowerings]:
    """The two paths of an operation whose result depends on the order, but for integers."""

    def of(function: Any) -> Any:
        return functools.partial(function, reduction=reduction)

    def keeping(order: Any, without: Any) -> Any:
        def run(operand: jax.Array, *rest: jax.Array, **options: Any) -> jax.Array:
            exact = not jnp.issubdtype(operand.dtype, jnp.inexact)
            return (without if exact else order)(operand, *rest, **options)  # type: ignore[no-any-return]

        return run

    xla, kernel = of(lowerings.xla_atomic), of(lowerings.kernel_atomic)
    return {
        "atomic": _common.Lowerings(xla, xla, kernel),
        "ordered": _common.Lowerings(
            cpu=keeping(of(scatter_accumulate_cpu.cpu), xla),
            xla=keeping(of(lowerings.xla_chains), xla),
            kernel=keeping(of(lowerings.kernel_chains), kernel),
        ),
    }


def _extreme(reduction: Reduction) -> dict[Path, _common.Lowerings]:
    """The one path of an operation whose result does not."""
    xla = functools.partial(scatter_extreme.xla, reduction=reduction)
    same = _common.Lowerings(
        xla, xla, functools.partial(scatter_extreme.kernel, reduction=reduction)
    )
    return {"atomic": same, "ordered": same}


#: One for each operation. The transpose of the sum is with gather's, of which it is made; the
#: derivatives of the others are in ``impl._primitives.scatter_accumulate_derivatives``.
primitives = {
    reduction.name: _common.new_primitive(
        f"samebits_scatter_{reduction.name}", _abstract, paths(reduction)
    )
    for reduction, paths in (
        (reductions.ADD, _folded),
        (reductions.MUL, _folded),
        (reductions.MIN, _extreme),
        (reductions.MAX, _extreme),
    )
}
for _name, _primitive in primitives.items():
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _name)
ad.primitive_jvps[primitives["add"]] = _jvp_of_sum
