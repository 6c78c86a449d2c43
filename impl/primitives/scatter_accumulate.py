"""Scatter-accumulate along an axis: the one place where many writers meet."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl import monoids
from impl.decide import Decision, Path
from impl.lowerings import extremes, panels
from impl.lowerings import scatter as lowerings
from impl.manual_axes import aligned
from impl.monoids import Monoid, Reduction
from impl.primitives import _core


def scatter_accumulate(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    decision: Decision,
    by: Reduction = "add",
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


def _jvp_of_sum(primals: Any, tangents: Any, *, decision: Decision) -> Any:
    operand, indices, updates = primals
    out = scatter_accumulate(operand, indices, updates, decision=decision)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _core.zero_tangent(out)
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    return out, scatter_accumulate(operand_dot, indices, updates_dot, decision=decision)


def _batch(by: Reduction, args: Any, dims: Any, *, decision: Decision) -> Any:
    size = _core.batch_size(args, dims)
    operand, indices, updates = align(args, dims, size, mapped=(0, 2))
    out = scatter_accumulate(operand, indices, updates, decision=decision, by=by)
    return _core.unfold(out, size, _core.outer_length(args[0], dims[0])), 0


def _folded(monoid: Monoid) -> dict[Path, _core.Lowerings]:
    """The two paths of an operation whose result depends on the order, but for integers."""

    def of(function: Any) -> Any:
        return functools.partial(function, monoid=monoid)

    def keeping(order: Any, without: Any) -> Any:
        def run(operand: jax.Array, *rest: jax.Array, **options: Any) -> jax.Array:
            exact = not jnp.issubdtype(operand.dtype, jnp.inexact)
            return (without if exact else order)(operand, *rest, **options)  # type: ignore[no-any-return]

        return run

    xla, kernel = of(lowerings.xla_atomic), of(lowerings.kernel_atomic)
    return {
        "atomic": _core.Lowerings(xla, xla, kernel),
        "ordered": _core.Lowerings(
            cpu=keeping(of(panels.cpu), xla),
            xla=keeping(of(lowerings.xla_chains), xla),
            kernel=keeping(of(lowerings.kernel_chains), kernel),
        ),
    }


def _extreme(monoid: Monoid) -> dict[Path, _core.Lowerings]:
    """The one path of an operation whose result does not."""
    xla = functools.partial(extremes.xla, monoid=monoid)
    same = _core.Lowerings(xla, xla, functools.partial(extremes.kernel, monoid=monoid))
    return {"atomic": same, "ordered": same}


#: One for each operation. The transpose of the sum is with gather's, of which it is made; the
#: derivatives of the others are in ``impl.primitives.scatter_jvps``.
primitives = {
    monoid.name: _core.new_primitive(f"samebits_scatter_{monoid.name}", _abstract, paths(monoid))
    for monoid, paths in (
        (monoids.ADD, _folded),
        (monoids.MUL, _folded),
        (monoids.MIN, _extreme),
        (monoids.MAX, _extreme),
    )
}
for _name, _primitive in primitives.items():
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _name)
ad.primitive_jvps[primitives["add"]] = _jvp_of_sum
