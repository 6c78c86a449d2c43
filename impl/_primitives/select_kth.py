"""The position of the k-th smallest element along an axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.shard_axes import aligned
from impl._families.sort_keys import sort_keys
from impl._lowerings import select_kth as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common


def select_kth(
    values: jax.Array,
    ranks: int | jax.Array,
    *,
    decision: Decision,
    nan_first: bool = False,
) -> jax.Array:
    """Finds the element of a given rank along the middle axis of [outer, n, inner].

    NaNs come after every number. Of several equal elements the one with the lowest position is
    taken, in every mode.

    Args:
        values: Real numbers.
        ranks: 1 for the smallest; one rank for all, or int32 of shape [outer, 1, inner].
        decision: The decision of this call.
        nan_first: Whether to find a NaN, whatever the rank is, in each row that has one.

    Returns:
        Its position, int32, shape [outer, 1, inner].
    """
    shape = (values.shape[0], 1, values.shape[2])
    ranks = jnp.broadcast_to(jnp.asarray(ranks, jnp.int32), shape)
    operands = aligned(values, ranks)
    return select_kth_p.bind(*operands, decision=decision, nan_first=nan_first)  # type: ignore[no-any-return]


def equal(a: jax.Array, b: jax.Array) -> jax.Array:
    """Compares elements as ``select_kth`` does: -0 equals 0, and all NaNs are equal."""
    return sort_keys(a) == sort_keys(b)


def _abstract(values: Any, ranks: Any, **_: Any) -> Any:
    return ranks.update(weak_type=False)


def _jvp(primals: Any, tangents: Any, **how: Any) -> Any:
    out = select_kth_p.bind(*primals, **how)
    return out, _common.zero_tangent(out)


def _batch(args: Any, dims: Any, **how: Any) -> Any:
    size = _common.batch_size(args, dims)
    values, ranks = (
        _common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)
    )
    out = select_kth(_common.merge_batch(values), _common.merge_batch(ranks), **how)
    return _common.split_batch(out, *values.shape[:2]), 0


select_kth_p = _common.new_primitive(
    "samebits_select_kth",
    _abstract,
    _common.Lowerings(
        cpu=lowerings.ordered_cpu, xla=lowerings.ordered_xla, kernel=lowerings.ordered_kernel
    ),
    axes=Axes("o.i, o.i -> o.i"),
    adds=False,
)
ad.primitive_jvps[select_kth_p] = _jvp
batching.primitive_batchers[select_kth_p] = _batch
