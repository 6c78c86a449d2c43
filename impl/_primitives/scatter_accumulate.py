"""Scatter-accumulate along an axis: combines many contributions with one element.

All nondeterminism of additions comes from this primitive. Its atomic path leaves the order of the
contributions to the hardware.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.shard_axes import aligned
from impl._families import reductions
from impl._families.reductions import Reduction, ReductionName
from impl._lowerings import scatter_accumulate as lowerings
from impl._lowerings import (
    scatter_accumulate_cpu,
    scatter_accumulate_exact,
    scatter_accumulate_extreme,
    scatter_accumulate_ordered,
)
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common


def scatter_accumulate(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    decision: Decision,
    by: ReductionName = "add",
    empty: bool = False,
) -> jax.Array:
    """Combines ``updates`` with ``operand`` along its middle axis.

    On the ordered path sums are exact, and products are in the spec's panel order. Both apply to
    each element of the outer and inner axes by itself, so batching changes no bits. Minima and
    maxima are the same in every order; a NaN is below and above every number.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. Updates whose index is outside
            [0, size) are dropped.
        updates: Shape [outer, n, inner], of the operand's dtype.
        decision: The decision of this call. The caller gives its alert.
        by: The operation that combines.
        empty: Whether ``operand`` is all zeros; only for a sum. A kernel then neither writes nor
            reads them.

    Returns:
        Shape [outer, size, inner].
    """
    operands = aligned(operand, indices, updates)
    known = {"empty": True} if empty else {}
    return primitives[by].bind(*operands, decision=decision, **known)  # type: ignore[no-any-return]


def merge_batches(
    args: Sequence[jax.Array], dims: Sequence[int | None], size: int, batched: Sequence[int]
) -> list[jax.Array]:
    """Merges the batch axis into the outer axis of [outer, n, inner] arrays.

    Args:
        args: The primitive's operands.
        dims: Their batch axes.
        size: Length of the batch axis.
        batched: Positions of the operands that get a batch axis in any case. All other operands
            hold indices. Indices that the whole batch and the outer axis share stay as they are.
    """
    merged = []
    outer = _common.outer_length(args[0], dims[0])
    for position, (arg, dim) in enumerate(zip(args, dims, strict=True)):
        if dim is None and position not in batched and arg.shape[0] == 1:
            merged.append(arg)
            continue
        value = _common.batch_to_front(arg, dim, size)
        if position not in batched and value.shape[1] != outer:
            value = jnp.broadcast_to(value, (size, outer, *value.shape[2:]))
        merged.append(_common.merge_batch(value))
    return merged


def _abstract(operand: Any, indices: Any, updates: Any, **_: Any) -> Any:
    return operand.update(weak_type=False)


def _jvp_of_sum(primals: Any, tangents: Any, *, decision: Decision, empty: bool = False) -> Any:
    operand, indices, updates = primals
    out = scatter_accumulate(operand, indices, updates, decision=decision, empty=empty)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    empty = type(tangents[0]) is ad.Zero
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    return out, scatter_accumulate(
        operand_dot, indices, updates_dot, decision=decision, empty=empty
    )


def _batch(by: ReductionName, args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    operand, indices, updates = merge_batches(args, dims, size, batched=(0, 2))
    out = scatter_accumulate(operand, indices, updates, by=by, **params)
    return _common.split_batch(out, size, _common.outer_length(args[0], dims[0])), 0


def _fold_paths(reduction: Reduction) -> tuple[_common.Lowerings, ...]:
    """Returns the paths of a sum or product, ordered and atomic; of floats their bits differ."""

    def with_reduction(function: Any) -> Any:
        return functools.partial(function, reduction=reduction)

    def without_empty(function: Any) -> Any:
        def run(*args: jax.Array, empty: bool = False, **options: Any) -> jax.Array:
            del empty
            return function(*args, reduction=reduction, **options)  # type: ignore[no-any-return]

        return run

    def ordered_for_floats(ordered: Any, atomic: Any) -> Any:
        def run(operand: jax.Array, *args: jax.Array, **options: Any) -> jax.Array:
            exact = not jnp.issubdtype(operand.dtype, jnp.inexact)
            return (atomic if exact else ordered)(operand, *args, **options)  # type: ignore[no-any-return]

        return run

    xla, kernel = without_empty(lowerings.atomic_xla), without_empty(lowerings.atomic_kernel)
    if reduction is reductions.ADD:
        ordered = _common.Lowerings(
            cpu=ordered_for_floats(scatter_accumulate_exact.exact_cpu, xla),
            xla=ordered_for_floats(scatter_accumulate_exact.exact_anywhere, xla),
            kernel=ordered_for_floats(scatter_accumulate_exact.exact_device, kernel),
            anywhere=ordered_for_floats(scatter_accumulate_exact.exact_anywhere, xla),
        )
    else:
        ordered = _common.Lowerings(
            cpu=ordered_for_floats(with_reduction(scatter_accumulate_cpu.ordered_cpu), xla),
            xla=ordered_for_floats(with_reduction(scatter_accumulate_ordered.ordered_xla), xla),
            kernel=ordered_for_floats(
                with_reduction(scatter_accumulate_ordered.ordered_kernel), kernel
            ),
        )
    return ordered, _common.Lowerings(xla, xla, kernel)


#: The paths of sums whose contributions are products, ordered and atomic. The lowering for a CPU
#: computes some products at a time, which needs less memory.
sums_of_products: tuple[_common.Lowerings, ...] = (
    _common.Lowerings(
        cpu=scatter_accumulate_exact.exact_cpu,
        xla=scatter_accumulate_exact.exact_anywhere,
        # Sums of products start from zeros.
        kernel=functools.partial(scatter_accumulate_exact.exact_device, empty=True),
        anywhere=scatter_accumulate_exact.exact_anywhere,
    ),
    _common.Lowerings(
        scatter_accumulate_cpu.source_cpu, lowerings.atomic_xla, lowerings.atomic_kernel
    ),
)


def _extreme_paths(reduction: Reduction) -> tuple[_common.Lowerings, ...]:
    """Returns the one path of a minimum or maximum, whose result does not depend on the order."""
    xla = functools.partial(scatter_accumulate_extreme.extreme_xla, reduction=reduction)
    return (_common.Lowerings.without_kernel(xla, xla),)


#: The primitive of each operation. ``gather`` registers the transpose of the sum, since that is a
#: gather. ``scatter_accumulate_derivatives`` registers all other derivatives.
primitives = {
    reduction.name: _common.new_primitive(
        f"samebits_scatter_{reduction.name}",
        _abstract,
        *paths(reduction),
        axes=Axes("o.i, o.i, o.i -> o.i"),
        adds=paths is _fold_paths,
    )
    for reduction, paths in (
        (reductions.ADD, _fold_paths),
        (reductions.MUL, _fold_paths),
        (reductions.MIN, _extreme_paths),
        (reductions.MAX, _extreme_paths),
    )
}
for _name, _primitive in primitives.items():
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _name)
ad.primitive_jvps[primitives["add"]] = _jvp_of_sum
