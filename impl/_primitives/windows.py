"""Windows: weighted sums over them, their maxima, and one element picked from each.

Sums and picks are linear. A tangent of maxima is a pick at their positions, and its transpose adds
each cotangent to the picked element. For windows of 3 elements, 2 apart, with a padding of 1:

    values          [3., 7., 2., 5., 1.]
    maxima          [7., 7., 5.], at the positions [1, 1, 3]
    picks           tangents [a, b, c, d, e]   ->   [b, b, d]
    transpose       cotangents [10., 20., 30.]  ->  [0., 30., 0., 30., 0.]

With several dimensions, maxima have a position along each, the last dimension first.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.jax_internals import Primitive
from impl._core.shard_axes import aligned
from impl._families.window_table import WindowTable
from impl._lowerings._partitioning import Axes
from impl._lowerings.windows import argmax, picks
from impl._lowerings.windows import maxima as windows_maxima
from impl._lowerings.windows import sums as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common


def window_sum(
    values: jax.Array, tables: tuple[WindowTable, ...], *, decision: Decision
) -> jax.Array:
    """Computes weighted sums over windows, in the spec's window order.

    Args:
        values: Shape [lanes, *inputs], with up to three dimensions besides the lanes.
        tables: The table of windows of each of these dimensions.
        decision: The decision of the gradient. The caller gives its alert.

    Returns:
        Shape [lanes, *outputs].
    """
    return _sum(values, tables=tables, decision=decision, transposed=False)


def maxima(values: jax.Array, tables: tuple[WindowTable, ...], *, decision: Decision) -> jax.Array:
    """Computes the maximum of each window.

    A NaN is greater than any number, and all NaNs are equal. Of several equal elements the first
    in row-major order is taken, on every path. The maximum of a window without taps is any element.

    Args:
        values: Shape [lanes, *inputs], with up to three dimensions besides the lanes.
        tables: The table of windows of each of these dimensions.
        decision: The decision of the gradient. The caller gives its alert.

    Returns:
        Shape [lanes, *outputs].
    """
    return maxima_p.bind(values, tables=tables, decision=decision)  # type: ignore[no-any-return]


def places(
    values: jax.Array, tables: tuple[WindowTable, ...], *, decision: Decision
) -> tuple[jax.Array, list[jax.Array]]:
    """Computes ``maxima``, and the positions of the maxima.

    Returns:
        The maxima, and their positions along each dimension, the last dimension first; int32. This
        dimension and those after it have the sizes of the result, and those before it have the
        sizes of the operand. A window without taps has 0.
    """
    out, *indices = places_p.bind(values, tables=tables, decision=decision)
    return out, indices


@functools.partial(jax.jit, static_argnames="length")
def argmax_from(values: jax.Array, start: jax.Array, length: int) -> jax.Array:
    """Finds the maximum of each window as ``argmax`` does, for windows computed at run time.

    Args:
        values: Shape [outer, inputs, inner].
        start: The position where each window begins; int32, shape [outer, outputs]. All windows lie
            within the inputs.
        length: The number of elements of every window.

    Returns:
        Its position, int32, shape [outer, outputs, inner].
    """
    return argmax.argmax_from(jax.lax.stop_gradient(values), start, length)


def _sum(values: jax.Array, **params: Any) -> jax.Array:
    return sum_p.bind(values, **params)  # type: ignore[no-any-return]


def _abstract_sum(values: Any, *, tables: Any, transposed: bool, decision: Decision) -> Any:
    sizes = [table.inputs if transposed else table.outputs for table in tables]
    return values.update(shape=(values.shape[0], *sizes), weak_type=False)


def _linear_jvp(function: Any, primals: Any, tangents: Any, **params: Any) -> Any:
    """Computes the tangent of a function that is linear in its first operand.

    The other operands are integers.
    """
    out = function(*primals, **params)
    if type(tangents[0]) is ad.Zero:
        return out, _common.zero_tangent(out)
    return out, function(tangents[0], *primals[1:], **params)


def _transpose_sum(cotangent: Any, values: Any, *, transposed: bool, **params: Any) -> Any:
    if type(cotangent) is ad.Zero:
        return (ad.Zero(values.aval),)
    return (_sum(cotangent, transposed=not transposed, **params),)


def _batch(primitive: Primitive, args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    batched = [_common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = primitive.bind(*map(_common.merge_batch, batched), **params)
    split = functools.partial(_common.split_batch, size=size, outer=batched[0].shape[1])
    return jax.tree.map(split, out), jax.tree.map(lambda _: 0, out)


def _abstract_maxima(values: Any, *, tables: Any, decision: Decision) -> Any:
    sizes = [table.outputs for table in tables]
    return values.update(shape=(values.shape[0], *sizes), weak_type=False)


def _abstract_places(values: Any, *, tables: Any, decision: Decision) -> Any:
    sizes, indices = [*values.shape], []
    for axis, table in reversed([*enumerate(tables, 1)]):
        sizes[axis] = table.outputs
        dtype = jnp.dtype(jnp.int32)
        indices.append(values.update(shape=tuple(sizes), dtype=dtype, weak_type=False))
    return [values.update(shape=tuple(sizes), weak_type=False), *indices]


def _maxima_jvp(primals: Any, tangents: Any, *, tables: Any, decision: Decision) -> Any:
    if type(tangents[0]) is ad.Zero:
        out = maxima(primals[0], tables, decision=decision)
        return out, _common.zero_tangent(out)
    outs, of_outs = _places_jvp(primals, tangents, tables=tables, decision=decision)
    return outs[0], of_outs[0]


def _places_jvp(primals: Any, tangents: Any, *, tables: Any, decision: Decision) -> Any:
    out, indices = places(primals[0], tables, decision=decision)
    zeros = map(_common.zero_tangent, indices)
    if type(tangents[0]) is ad.Zero:
        return [out, *indices], [_common.zero_tangent(out), *zeros]
    operands = aligned(tangents[0], *indices)
    return [out, *indices], [picks_p.bind(*operands, tables=tables, decision=decision), *zeros]


def _abstract_picks(values: Any, *indices: Any, tables: Any, decision: Decision) -> Any:
    return values.update(shape=indices[-1].shape, weak_type=False)


def _abstract_picks_transpose(picked: Any, *indices: Any, tables: Any, decision: Decision) -> Any:
    sizes = [table.inputs for table in tables]
    return picked.update(shape=(picked.shape[0], *sizes), weak_type=False)


def _transpose_into(
    other: Primitive, cotangent: Any, operand: Any, *indices: Any, **params: Any
) -> Any:
    """Computes the transpose of a primitive, which the other primitive computes."""
    nones = (None,) * len(indices)
    if type(cotangent) is ad.Zero:
        return ad.Zero(operand.aval), *nones
    return other.bind(*aligned(cotangent, *indices), **params), *nones


sum_p = _common.new_primitive(
    "samebits_window_sum",
    _abstract_sum,
    # XLA fuses this lowering, and each one below, into a kernel that reads and writes once. That
    # costs no more than atomics, so every primitive of windows has one path.
    _common.Lowerings.without_kernel(lowerings.sum_cpu, lowerings.sum_xla, cpu_isolates=True),
    axes=Axes("l -> l"),
)
#: The maxima alone. Without a gradient nobody needs their positions.
maxima_p = _common.new_primitive(
    "samebits_window_maxima",
    _abstract_maxima,
    _common.Lowerings.without_kernel(
        functools.partial(windows_maxima.maxima, on_cpu=True), windows_maxima.maxima
    ),
    axes=Axes("l -> l"),
    adds=False,
)
places_p = _common.new_primitive(
    "samebits_window_places",
    _abstract_places,
    _common.Lowerings.without_kernel(
        functools.partial(windows_maxima.places, on_cpu=True), windows_maxima.places
    ),
    axes=Axes("l -> l"),
    multiple_results=True,
    adds=False,
)
picks_p = _common.new_primitive(
    "samebits_window_picks",
    _abstract_picks,
    _common.Lowerings.without_kernel(picks.picks_cpu, picks.picks),
    axes=Axes("l, l -> l"),
    adds=False,
)
#: The transpose of ``picks_p``.
picks_transpose_p = _common.new_primitive(
    "samebits_window_picks_transpose",
    _abstract_picks_transpose,
    _common.Lowerings.without_kernel(
        picks.picks_transpose_cpu, picks.picks_transpose, cpu_isolates=True
    ),
    axes=Axes("l, l -> l"),
)

ad.primitive_jvps[sum_p] = functools.partial(_linear_jvp, _sum)
ad.primitive_transposes[sum_p] = _transpose_sum
for _primitive, _other in ((picks_p, picks_transpose_p), (picks_transpose_p, picks_p)):
    ad.primitive_jvps[_primitive] = functools.partial(_linear_jvp, _primitive.bind)
    ad.primitive_transposes[_primitive] = functools.partial(_transpose_into, _other)
ad.primitive_jvps[maxima_p] = _maxima_jvp
ad.primitive_jvps[places_p] = _places_jvp
for _primitive in (sum_p, maxima_p, places_p, picks_p, picks_transpose_p):
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _primitive)
