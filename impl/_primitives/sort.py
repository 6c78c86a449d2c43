"""Sorting along an axis: elements, positions, and the position of the most frequent element."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core import jax_internals
from impl._core.jax_internals import Primitive
from impl._lowerings import sort as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.gather import gather


def argsort(
    values: jax.Array, count: int, *, descending: bool = False, decision: Decision
) -> jax.Array:
    """Returns positions in sorted order along the middle axis of [outer, n, inner].

    -0 equals 0, and NaNs are greater than every number. Of equal elements the one with the lower
    position comes first, on both paths and in descending order too.

    Args:
        values: Real numbers.
        count: The number of positions to return, up to n.
        descending: Whether the greatest comes first.
        decision: The decision of this call.

    Returns:
        int32, shape [outer, count, inner].
    """
    return argsort_p.bind(values, count=count, descending=descending, decision=decision)  # type: ignore[no-any-return]


def sort(
    values: jax.Array, *, descending: bool = False, decision: Decision
) -> tuple[jax.Array, jax.Array]:
    """Sorts along the middle axis of [outer, n, inner], in the order of ``argsort``.

    Args:
        values: Real numbers.
        descending: Whether the greatest comes first.
        decision: The decision of this call.

    Returns:
        The elements, and their positions as int32, both of the shape of ``values``. Gradients go
        to the elements at the positions.
    """
    elements, positions = sort_p.bind(values, descending=descending, decision=decision)
    return elements, positions


def most_frequent(values: jax.Array, *, decision: Decision) -> jax.Array:
    """Returns the lowest position of the element that occurs most often.

    If several elements occur as often, it is the least of them. -0 equals 0, and a NaN equals
    nothing.

    Args:
        values: Real numbers, shape [outer, n, inner].
        decision: The decision of this call.

    Returns:
        int32, shape [outer, 1, inner].
    """
    return most_frequent_p.bind(values, decision=decision)  # type: ignore[no-any-return]


def _abstract(values: Any, *, count: int = 1, **_: Any) -> Any:
    int32 = jnp.dtype(jnp.int32)
    return jax_internals.type_of(values, (values, 0), count, (values, 2), dtype=int32)


def _new_primitive(name: str, cpu: Any, xla: Any, kernel: Any) -> Primitive:
    primitive = _common.new_primitive(
        name,
        _abstract,
        _common.Lowerings(cpu=cpu, xla=xla, kernel=kernel),
        axes=Axes("o.i -> o.i"),
        adds=False,
    )

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        return out, _common.zero_tangent(out)

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        values = _common.batch_to_front(args[0], dims[0], args[0].shape[dims[0]])
        out = primitive.bind(_common.merge_batch(values), **params)
        return _common.split_batch(out, *values.shape[:2]), 0

    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch
    return primitive


def _abstract_sort(values: Any, **_: Any) -> Any:
    values = values.update(weak_type=False)
    return values, values.update(dtype=jnp.dtype(jnp.int32))


def _jvp_of_sort(primals: Any, tangents: Any, **params: Any) -> Any:
    out = sort(*primals, **params)
    zero = _common.zero_tangent(out[1])
    if type(tangents[0]) is ad.Zero:
        return out, (_common.zero_tangent(out[0]), zero)
    # Each element is read once, so the gradient is the same in every order.
    return out, (gather(tangents[0], out[1], pullback=Decision()), zero)


def _batch_sort(args: Any, dims: Any, **params: Any) -> Any:
    values = _common.batch_to_front(args[0], dims[0], args[0].shape[dims[0]])
    out = sort(_common.merge_batch(values), **params)
    return tuple(part.reshape(values.shape) for part in out), (0, 0)


_ordered_sort = _common.Lowerings(
    cpu=lowerings.sort_cpu,
    xla=lowerings.sort_xla,
    kernel=lowerings.sort_kernel,
    launches=False,
)
sort_p = _common.new_primitive(
    "samebits_sort",
    _abstract_sort,
    _ordered_sort,
    dataclasses.replace(_ordered_sort, kernel=lowerings.sort_without_keys),
    axes=Axes("o.i -> o.i, o.i"),
    multiple_results=True,
    adds=False,
)
ad.primitive_jvps[sort_p] = _jvp_of_sort
batching.primitive_batchers[sort_p] = _batch_sort
argsort_p = _new_primitive(
    "samebits_argsort",
    lowerings.argsort_cpu,
    lowerings.argsort_xla,
    lowerings.argsort_kernel,
)
most_frequent_p = _new_primitive(
    "samebits_most_frequent",
    lowerings.most_frequent_cpu,
    lowerings.most_frequent_xla,
    lowerings.most_frequent_kernel,
)
