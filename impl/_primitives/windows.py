"""Windows: weighted sums over them, and picking one element of each; both linear."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from impl._core.shard_axes import aligned
from impl._core.window_table import WindowTable
from impl._kernels.triton import Launch
from impl._lowerings import windows as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common


def window_sum(
    values: jax.Array, taps: tuple[WindowTable, ...], *, decision: Decision
) -> jax.Array:
    """Weighted sums over windows, in the spec's window order.

    Args:
        values: Shape [lanes, *inputs], with up to three dimensions beside the lanes.
        taps: The table of windows of each of these.
        decision: How the transpose is computed; the alert is the caller's business.

    Returns:
        Shape [lanes, *outputs].
    """
    return _sum(values, taps=taps, decision=decision, transposed=False)


def pick(
    values: jax.Array, index: jax.Array, taps: WindowTable, *, decision: Decision
) -> jax.Array:
    """One element of each window along an axis.

    Args:
        values: Shape [outer, inputs, inner].
        index: Its position, one that the window reads; int32, shape [outer, outputs, inner].
        taps: The table of windows.
        decision: How the transpose is computed; the alert is the caller's business.

    Returns:
        Shape [outer, outputs, inner].
    """
    operands = aligned(values, index)
    return pick_p.bind(*operands, taps=taps, decision=decision)  # type: ignore[no-any-return]


@functools.partial(jax.jit, static_argnames="taps")
def argmax(values: jax.Array, taps: WindowTable) -> jax.Array:
    """Position of the greatest element of each window along an axis, on every path the lowest.

    A NaN is greater than any number, and all NaNs are equal. What a window of no taps has is -1.

    Args:
        values: Shape [outer, inputs, inner].
        taps: The table of windows.

    Returns:
        int32, shape [outer, outputs, inner].
    """
    return lowerings.argmax(jax.lax.stop_gradient(values), taps)


@functools.partial(jax.jit, static_argnames="length")
def argmax_from(values: jax.Array, start: jax.Array, length: int) -> jax.Array:
    """As ``argmax``, of windows that are known only when a program runs.

    Args:
        values: Shape [outer, inputs, inner].
        start: Where each window begins, within the inputs as it ends; int32, shape
            [outer, outputs].
        length: How many elements every window has.

    Returns:
        int32, shape [outer, outputs, inner].
    """
    return lowerings.argmax_from(jax.lax.stop_gradient(values), start, length)


def _sum(values: jax.Array, **params: Any) -> jax.Array:
    return sum_p.bind(values, **params)  # type: ignore[no-any-return]


def _abstract_sum(values: Any, *, taps: Any, transposed: bool, decision: Decision) -> Any:
    sizes = [table.inputs if transposed else table.outputs for table in taps]
    return values.update(shape=(values.shape[0], *sizes), weak_type=False)


def _linear_jvp(function: Any, primals: Any, tangents: Any, **params: Any) -> Any:
    """Of an operation that is linear in its first operand, the others being integers."""
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
    moved = [_common.move_batch(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = primitive.bind(*map(_common.fold, moved), **params)
    return _common.unfold(out, size, moved[0].shape[1]), 0


def _abstract_pick(values: Any, index: Any, *, taps: WindowTable, decision: Decision) -> Any:
    return values.update(shape=index.shape, weak_type=False)


def _abstract_put_back(picked: Any, index: Any, *, taps: WindowTable, decision: Decision) -> Any:
    outer, _, inner = picked.shape
    return picked.update(shape=(outer, taps.inputs, inner), weak_type=False)


def _transpose_into(
    other: Primitive, cotangent: Any, operand: Any, index: Any, **params: Any
) -> Any:
    if type(cotangent) is ad.Zero:
        return ad.Zero(operand.aval), None
    return other.bind(*aligned(cotangent, index), **params), None


def _without_table(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """A form that needs no table, only ``pick``'s transpose does."""

    def run(*operands: jax.Array, taps: WindowTable) -> jax.Array:
        del taps
        return function(*operands)

    return run


def _without_kernel(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """A form that serves as a kernel too: XLA fuses it into one that reads and writes once."""

    def run(*operands: jax.Array, launch: Launch, **params: Any) -> jax.Array:
        del launch
        return function(*operands, **params)

    return run


_gather, _on_cpu = lowerings.gather_form, lowerings.gather_form_on_cpu
sum_p = _common.new_primitive(
    "samebits_window_sum",
    _abstract_sum,
    {
        "atomic": _common.Lowerings(_on_cpu, _gather, lowerings.scatter_form),
        "ordered": _common.Lowerings(_on_cpu, _gather, _without_kernel(_gather)),
    },
)
_either = _common.Lowerings(
    _without_table(lowerings.pick_on_cpu),
    _without_table(lowerings.pick),
    _without_kernel(_without_table(lowerings.pick)),
)
pick_p = _common.new_primitive(
    "samebits_window_pick", _abstract_pick, {"atomic": _either, "ordered": _either}
)
_back, _back_on_cpu = lowerings.put_back, lowerings.put_back_on_cpu
put_back_p = _common.new_primitive(
    "samebits_window_put_back",
    _abstract_put_back,
    {
        "atomic": _common.Lowerings(_back_on_cpu, _back, lowerings.put_back_by_atomics),
        "ordered": _common.Lowerings(_back_on_cpu, _back, _without_kernel(_back)),
    },
)

ad.primitive_jvps[sum_p] = functools.partial(_linear_jvp, _sum)
ad.primitive_transposes[sum_p] = _transpose_sum
for _one, _other in ((pick_p, put_back_p), (put_back_p, pick_p)):
    ad.primitive_jvps[_one] = functools.partial(_linear_jvp, _one.bind)
    ad.primitive_transposes[_one] = functools.partial(_transpose_into, _other)
for _one in (sum_p, pick_p, put_back_p):
    batching.primitive_batchers[_one] = functools.partial(_batch, _one)
