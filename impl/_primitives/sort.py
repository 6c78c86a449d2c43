"""Positions in sorted order along an axis, and the position of the most frequent element."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from impl._lowerings import sort as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common


def rank(
    values: jax.Array, count: int, *, descending: bool = False, decision: Decision
) -> jax.Array:
    """Positions, along the middle axis of [outer, n, inner], of its elements in sorted order.

    -0 equals 0, and NaNs are greater than every number; of equal elements the one with the lower
    index comes first, on both paths and in both directions.

    Args:
        values: Real numbers.
        count: How many positions to return, up to n.
        descending: Whether the greatest comes first.
        decision: The path of each platform.

    Returns:
        int32, shape [outer, count, inner].
    """
    return rank_p.bind(values, count=count, descending=descending, decision=decision)  # type: ignore[no-any-return]


def most_frequent(values: jax.Array, *, decision: Decision) -> jax.Array:
    """The lowest position of the element that occurs most often, of several the least.

    -0 equals 0, and a NaN equals nothing.

    Args:
        values: Real numbers, shape [outer, n, inner].
        decision: The path of each platform.

    Returns:
        int32, shape [outer, 1, inner].
    """
    return most_frequent_p.bind(values, decision=decision)  # type: ignore[no-any-return]


def _positions(values: Any, *, count: int = 1, **_: Any) -> Any:
    shape = (values.shape[0], count, values.shape[2])
    return values.update(shape=shape, dtype=jnp.dtype(jnp.int32), weak_type=False)


def _new(name: str, cpu: Any, xla: Any, kernel: Any) -> Primitive:
    both = _common.Lowerings(cpu=cpu, xla=xla, kernel=kernel)
    primitive = _common.new_primitive(name, _positions, {"atomic": both, "ordered": both})

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        return out, _common.zero_tangent(out)

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        values = _common.move_batch(args[0], dims[0], args[0].shape[dims[0]])
        out = primitive.bind(_common.fold(values), **params)
        return _common.unfold(out, *values.shape[:2]), 0

    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch
    return primitive


rank_p = _new("samebits_rank", lowerings.cpu_rank, lowerings.xla_rank, lowerings.kernel_rank)
most_frequent_p = _new(
    "samebits_most_frequent",
    lowerings.cpu_most_frequent,
    lowerings.xla_most_frequent,
    lowerings.kernel_most_frequent,
)
