"""The total along an axis, in each of its elements; a symmetric linear function.

A softmax is divided by a total of its exponentials, and its derivatives in both modes subtract a
total. Because the total is its own transpose, all of them are in one order.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.interpreters import ad, batching

from impl._lowerings import total as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common


def total(values: jax.Array, *, decision: Decision) -> jax.Array:
    """Computes the sum along the last axis, in the spec's order of halves.

    Args:
        values: Any shape with one dimension or more.
        decision: The decision of this call and of its derivatives. The caller gives its alert.

    Returns:
        The shape and dtype of ``values``: each element is the sum along the last axis. float16 and
        bfloat16 are added in float32 and rounded once.
    """
    return total_p.bind(values, decision=decision)  # type: ignore[no-any-return]


def _transpose(cotangent: Any, values: Any, *, decision: Decision) -> Any:
    if type(cotangent) is ad.Zero:
        return (ad.Zero(values.aval),)
    return (total(cotangent, decision=decision),)


def _batch(args: Any, dims: Any, *, decision: Decision) -> Any:
    size = _common.batch_size(args, dims)
    return total(_common.batch_to_front(args[0], dims[0], size), decision=decision), 0


total_p = _common.new_primitive(
    "samebits_total",
    lambda values, *, decision: values.update(weak_type=False),
    _common.Lowerings.without_kernel(lowerings.ordered_xla, lowerings.ordered_xla),
    _common.Lowerings.without_kernel(lowerings.atomic_xla, lowerings.atomic_xla),
    axes=Axes("*. -> *."),
)
ad.deflinear2(total_p, _transpose)
batching.primitive_batchers[total_p] = _batch
