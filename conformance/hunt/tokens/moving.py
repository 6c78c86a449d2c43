"""Tokens that move elements: shapes, slices, gathers and scatters.

A token, and an equation that it may write::

    token "reverse", "lax.rev({0}, ({axis},))"    v1 = lax.rev(v0, (0,))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import ALL_FLOATS, COMPLEX, FLOATS, NUMBERS, ROWS, token

_ANY = (*NUMBERS, *COMPLEX, "bool")


def _transposed(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=2)
    aval = pool.aval(operand)
    axes = pool.axes(aval)
    order = [*range(axes[0]), *axes[1:], axes[0]]
    return Choice((operand,), {"order": order}, aval.with_shape(*(aval.shape[i] for i in order)))


def _flattened(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1)
    aval = pool.aval(operand)
    first = aval.shape[:1] if aval.rows else ()
    size = aval.size // first[0] if first else aval.size
    half = [2, size // 2] if size and size % 2 == 0 and pool.dice.happens(50) else [size]
    named = [ROWS] * len(first)
    return Choice((operand,), {"shape": [*named, *half]}, aval.with_shape(*first, *half))


def _same_shape(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    return Choice((operand,), {"axis": axis, "by": pool.dice.between(1, 3)}, aval)


def _widened(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an axis that gets longer: by padding, by copies, or by another operand."""
    operand = pool.pick(dtype, least=1)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    size = aval.shape[axis]
    low, high = pool.dice.between(-1 if size > 2 else 0, 2), pool.dice.between(0, 3)
    inner = pool.dice.between(0, 1) if size else 0
    rest = [[0, 0, 0]] * len(aval.shape)
    operands, params = (operand,), {"axis": axis, "times": 2}
    if options["by"] == "pad":
        rest[axis] = [low, high, inner]
        params["padding"] = rest  # type: ignore[assignment]  # A list among integers.
        size = size + low + high + inner * max(size - 1, 0)
    elif options["by"] == "operand":
        operands = (operand, pool.like(aval))  # type: ignore[assignment]  # Two of them.
        size *= 2
    else:
        size *= 2
    shape = (*aval.shape[:axis], size, *aval.shape[axis + 1 :])
    return Choice(operands, params, aval.with_shape(*shape))


def _sliced(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    size = aval.shape[axis]
    start = pool.dice.between(0, size // 2)
    stop = pool.dice.between(start, size)
    step = pool.dice.between(1, 2)
    shape = (*aval.shape[:axis], -((start - stop) // step), *aval.shape[axis + 1 :])
    params = {"start": start, "stop": stop, "step": step, "axis": axis}
    return Choice((operand,), params, aval.with_shape(*shape))


def _sliced_anywhere(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a slice whose start is an argument of the program."""
    operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    size = pool.dice.between(1, aval.shape[axis])
    part = aval.with_shape(*aval.shape[:axis], size, *aval.shape[axis + 1 :])
    start = pool.argument(Aval((), "int32"), limit=aval.shape[axis] + 2)
    if options.get("updates"):
        return Choice((operand, pool.like(part), start), {"axis": axis}, aval)
    return Choice((operand, start), {"axis": axis, "size": size}, part)


def _expanded(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, most=2)
    aval = pool.aval(operand)
    axis = pool.dice.between(1 if aval.rows else 0, len(aval.shape))
    count = pool.dice.one_of((1, 2, 3))
    shape = (*aval.shape[:axis], count, *aval.shape[axis:])
    named = [ROWS, *shape[1:]] if aval.rows else list(shape)
    return Choice((operand,), {"axis": axis, "shape": named}, aval.with_shape(*shape))


def _gathered(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws a table, and rows or single positions that index it."""
    table = pool.pick(dtype, least=1, rows=False, nonempty=True)
    aval = pool.aval(table)
    rows = bool(pool.rows) and pool.dice.happens(60)
    count = pool.rows if rows else pool.dice.one_of((1, 4, 7, 8))
    index = pool.argument(Aval((count,), "int32", rows), limit=aval.shape[0])
    return Choice((table, index), {}, Aval((count, *aval.shape[1:]), dtype, rows))


def _taken_along(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    index = pool.argument(aval.with_dtype("int32"), limit=aval.shape[axis])
    return Choice((operand, index), {"axis": axis}, aval)


def _scattered(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws updates of an operand at indices of which many are equal."""
    operand = pool.pick(dtype, least=1, most=2, rows=False, nonempty=True)
    aval = pool.aval(operand)
    count = pool.dice.one_of((1, 5, 8, 16, 24))
    index = pool.argument(Aval((count,), "int32"), limit=min(aval.shape[0] + 1, 6))
    updates = pool.like(Aval((count, *aval.shape[1:]), dtype))
    return Choice((operand, index, updates), {}, aval)


token("transpose", _transposed, "lax.transpose({0}, {order})", _ANY, "transpose", check="same")
token("reshape", _flattened, "lax.reshape({0}, {shape})", _ANY, "reshape", check="same")
token("reverse", _same_shape, "lax.rev({0}, ({axis},))", _ANY, "rev", check="same")
token(
    "roll", _same_shape, "jnp.roll({0}, {by}, axis={axis})", _ANY, "concatenate slice", check="same"
)
token(
    "pad",
    _widened,
    "lax.pad({0}, jnp.array(0, {0}.dtype), {padding})",
    NUMBERS,
    "pad",
    check="same",
    by="pad",
)
token(
    "concatenate",
    _widened,
    "lax.concatenate([{0}, {1}], {axis})",
    _ANY,
    "concatenate",
    check="same",
    by="operand",
)
token(
    "repeat",
    _widened,
    "jnp.repeat({0}, {times}, axis={axis})",
    _ANY,
    "broadcast_in_dim",
    check="same",
    by="copies",
)
token(
    "tile",
    _widened,
    "jnp.concatenate(jnp.split(jnp.concatenate([{0}] * {times}, {axis}), 1, {axis}), {axis})",
    _ANY,
    "split",
    check="same",
    by="copies",
)
token(
    "slice",
    _sliced,
    "lax.slice_in_dim({0}, {start}, {stop}, {step}, {axis})",
    _ANY,
    "slice",
    check="same",
)
token(
    "dynamic_slice",
    _sliced_anywhere,
    "lax.dynamic_slice_in_dim({0}, {1}, {size}, {axis})",
    _ANY,
    "dynamic_slice",
    check="same",
)
token(
    "dynamic_update_slice",
    _sliced_anywhere,
    "lax.dynamic_update_slice_in_dim({0}, {1}, {2}, {axis})",
    _ANY,
    "dynamic_update_slice",
    check="same",
    updates=True,
)
token(
    "broadcast",
    _expanded,
    "jnp.broadcast_to(jnp.expand_dims({0}, {axis}), {shape})",
    _ANY,
    "broadcast_in_dim",
    check="same",
)
token("stack", _expanded, "jnp.stack([{0}] * {shape}[{axis}], axis={axis})", _ANY, "", check="same")
token(
    "squeeze",
    _expanded,
    "jnp.stack([jnp.squeeze(jnp.expand_dims({0}, 0), 0)] * {shape}[{axis}], axis={axis})",
    _ANY,
    "squeeze",
    check="same",
)
token("gather", _gathered, "{0}[{1}]", _ANY, "gather", check="same", weight=150)
token(
    "take_along",
    _taken_along,
    "jnp.take_along_axis({0}, {1}, axis={axis})",
    NUMBERS,
    "gather",
    check="same",
)
token(
    "scatter_add",
    _scattered,
    "{0}.at[{1}].add({2}, mode='drop')",
    ALL_FLOATS,
    "scatter-add",
    check="scatter",
    weight=250,
    family="sums",
)
token(
    "scatter_subtract",
    _scattered,
    "{0}.at[{1}].subtract({2}, mode='drop')",
    FLOATS,
    "scatter-sub",
    check="scatter",
    family="sums",
)
token(
    "scatter_multiply",
    _scattered,
    "{0}.at[{1}].multiply({2}, mode='drop')",
    FLOATS,
    "scatter-mul",
    check="none",
    has_derivative=False,
)
token(
    "scatter_max",
    _scattered,
    "{0}.at[{1}].max({2}, mode='drop')",
    FLOATS,
    "scatter-max",
    check="none",
)
token(
    "scatter_min",
    _scattered,
    "{0}.at[{1}].min({2}, mode='drop')",
    FLOATS,
    "scatter-min",
    check="none",
)
token(
    "scatter_set",
    _scattered,
    "{0}.at[{1}].set({2}, mode='drop')",
    NUMBERS,
    "scatter",
    check="none",
    has_derivative=False,
)
token(
    "segment_sum",
    _scattered,
    "jax.ops.segment_sum({2}, {1}, num_segments={0}.shape[0]) + 0 * {0}",
    FLOATS,
    "scatter-add",
    check="none",
)
token(
    "iota",
    _same_shape,
    "{0} + lax.broadcasted_iota({0}.dtype, {0}.shape, {axis})",
    NUMBERS,
    "iota",
    check="none",
)
