"""Windows: weighted sums over them, and one element picked from each; both are linear."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, xla

from impl._core import jax_internals
from impl._core.jax_internals import Primitive
from impl._core.shard_axes import aligned
from impl._core.window_table import WindowTable
from impl._lowerings import _partitioning, _traces, windows_picks
from impl._lowerings import windows as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common


def window_sum(
    values: jax.Array, tables: tuple[WindowTable, ...], *, decision: Decision
) -> jax.Array:
    """Computes weighted sums over windows, in the spec's window order.

    Args:
        values: Shape [lanes, *inputs], with up to three dimensions beside the lanes.
        tables: The table of windows of each of these dimensions.
        decision: The decision of the gradient. The caller gives its alert.

    Returns:
        Shape [lanes, *outputs].
    """
    return _sum(values, tables=tables, decision=decision, transposed=False)


def pick(
    values: jax.Array, index: jax.Array, table: WindowTable, *, decision: Decision
) -> jax.Array:
    """Reads one element of each window along an axis.

    Args:
        values: Shape [outer, inputs, inner].
        index: The position of the element, which the window reads; int32, shape
            [outer, outputs, inner].
        table: The table of windows.
        decision: The decision of the gradient. The caller gives its alert.

    Returns:
        Shape [outer, outputs, inner].
    """
    operands = aligned(values, index)
    return pick_p.bind(*operands, table=table, decision=decision)  # type: ignore[no-any-return]


def argmax(values: jax.Array, table: WindowTable) -> jax.Array:
    """Finds the maximum of each window along an axis.

    A NaN is greater than any number, and all NaNs are equal. Of several equal elements the lowest
    position is returned, on every path. A window without taps has the position -1.

    Args:
        values: Shape [outer, inputs, inner].
        table: The table of windows.

    Returns:
        Its position, int32, shape [outer, outputs, inner].
    """
    return argmax_p.bind(values, table=table)  # type: ignore[no-any-return]


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
    return windows_picks.argmax_from(jax.lax.stop_gradient(values), start, length)


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
    return _common.split_batch(out, size, batched[0].shape[1]), 0


def _abstract_argmax(values: Any, *, table: WindowTable) -> Any:
    int32 = jnp.dtype(jnp.int32)
    return jax_internals.type_of(values, (values, 0), table.outputs, (values, 2), dtype=int32)


def _argmax_rule(platform: str | None, context: Any, values: Any, *, table: WindowTable) -> Any:
    lowering = windows_picks.argmax_cpu if platform == "cpu" else windows_picks.argmax
    function = _traces.traced_once(functools.partial, lowering, table=table)
    axes = Axes("o.i -> o.i")
    return _partitioning.lower(function, axes, context, values, multiple_results=False)


def _argmax_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = argmax_p.bind(*primals, **params)
    return out, _common.zero_tangent(out)


def _abstract_pick(values: Any, index: Any, *, table: WindowTable, decision: Decision) -> Any:
    return values.update(shape=index.shape, weak_type=False)


def _abstract_pick_transpose(
    picked: Any, index: Any, *, table: WindowTable, decision: Decision
) -> Any:
    outer, _, inner = picked.shape
    return picked.update(shape=(outer, table.inputs, inner), weak_type=False)


def _transpose_into(
    other: Primitive, cotangent: Any, operand: Any, index: Any, **params: Any
) -> Any:
    """Computes the transpose of a primitive, which the other primitive computes."""
    if type(cotangent) is ad.Zero:
        return ad.Zero(operand.aval), None
    return other.bind(*aligned(cotangent, index), **params), None


# A table is a parameter of ``pick`` for the sake of its transpose.
_without_table = functools.partial(_common.drop_parameter, "table")

sum_p = _common.new_primitive(
    "samebits_window_sum",
    _abstract_sum,
    {
        "atomic": _common.Lowerings(
            lowerings.sum_cpu, lowerings.sum_xla, lowerings.sum_atomic_kernel, cpu_isolates=True
        ),
        # XLA fuses this into a kernel that reads and writes once, and likewise those below.
        "ordered": _common.Lowerings.without_kernel(
            lowerings.sum_cpu, lowerings.sum_xla, cpu_isolates=True
        ),
    },
    axes=Axes("l -> l"),
)
#: Every path and every device finds the same position, so it has no decision.
argmax_p = Primitive("samebits_window_argmax")
argmax_p.def_impl(functools.partial(xla.apply_primitive, argmax_p))
argmax_p.def_abstract_eval(_abstract_argmax)
_common.register_per_platform(argmax_p, _argmax_rule)
_pick = _common.Lowerings.without_kernel(
    _without_table(windows_picks.pick_cpu), _without_table(windows_picks.pick_xla)
)
pick_p = _common.new_primitive(
    "samebits_window_pick",
    _abstract_pick,
    {"atomic": _pick, "ordered": _pick},
    axes=Axes("o.i, o.i -> o.i"),
    adds=False,
)
#: The transpose of ``pick_p``.
pick_transpose_p = _common.new_primitive(
    "samebits_window_pick_transpose",
    _abstract_pick_transpose,
    {
        "atomic": _common.Lowerings(
            windows_picks.pick_transpose_cpu,
            windows_picks.pick_transpose_xla,
            windows_picks.pick_transpose_atomic_kernel,
            cpu_isolates=True,
        ),
        "ordered": _common.Lowerings.without_kernel(
            windows_picks.pick_transpose_cpu, windows_picks.pick_transpose_xla, cpu_isolates=True
        ),
    },
    axes=Axes("o.i, o.i -> o.i"),
)

ad.primitive_jvps[sum_p] = functools.partial(_linear_jvp, _sum)
ad.primitive_transposes[sum_p] = _transpose_sum
for _primitive, _other in ((pick_p, pick_transpose_p), (pick_transpose_p, pick_p)):
    ad.primitive_jvps[_primitive] = functools.partial(_linear_jvp, _primitive.bind)
    ad.primitive_transposes[_primitive] = functools.partial(_transpose_into, _other)
ad.primitive_jvps[argmax_p] = _argmax_jvp
for _primitive in (sum_p, pick_p, pick_transpose_p, argmax_p):
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _primitive)
