"""Tokens that move elements: shapes, slices, gathers and scatters.

A token, and an equation that it may write::

    [reverse]  "lax.rev({0}, ({axis},))"    v1 = lax.rev(v0, (0,))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import ROWS


def transposed(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=2)
    aval = pool.aval(operand)
    axes = pool.axes(aval)
    order = [*range(axes[0]), *axes[1:], axes[0]]
    return Choice((operand,), {"order": order}, aval.with_shape(*(aval.shape[i] for i in order)))


def flattened(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1)
    aval = pool.aval(operand)
    first = aval.shape[:1] if aval.rows else ()
    size = aval.size // first[0] if first else aval.size
    half = [2, size // 2] if size and size % 2 == 0 and pool.dice.happens(50) else [size]
    named = [ROWS] * len(first)
    return Choice((operand,), {"shape": [*named, *half]}, aval.with_shape(*first, *half))


def same_shape(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    return Choice((operand,), {"axis": axis, "by": pool.dice.between(1, 3)}, aval)


def widened(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
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


def sliced(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
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


def sliced_anywhere(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
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


def expanded(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, most=2)
    aval = pool.aval(operand)
    axis = pool.dice.between(1 if aval.rows else 0, len(aval.shape))
    count = pool.dice.one_of((1, 2, 3))
    shape = (*aval.shape[:axis], count, *aval.shape[axis:])
    named = [ROWS, *shape[1:]] if aval.rows else list(shape)
    return Choice((operand,), {"axis": axis, "shape": named}, aval.with_shape(*shape))


def gathered(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws a table, and rows or single positions that index it."""
    table = pool.pick(dtype, least=1, rows=False, nonempty=True)
    aval = pool.aval(table)
    rows = bool(pool.rows) and pool.dice.happens(60)
    count = pool.rows if rows else pool.dice.one_of((1, 4, 7, 8))
    index = pool.argument(Aval((count,), "int32", rows), limit=aval.shape[0])
    return Choice((table, index), {}, Aval((count, *aval.shape[1:]), dtype, rows))


def taken_along(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    index = pool.argument(aval.with_dtype("int32"), limit=aval.shape[axis])
    return Choice((operand, index), {"axis": axis}, aval)


def scattered(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws updates of an operand at indices of which many are equal."""
    operand = pool.pick(dtype, least=1, most=2, rows=False, nonempty=True)
    aval = pool.aval(operand)
    count = pool.dice.one_of((1, 5, 8, 16, 24))
    index = pool.argument(Aval((count,), "int32"), limit=min(aval.shape[0] + 1, 6))
    updates = pool.like(Aval((count, *aval.shape[1:]), dtype))
    return Choice((operand, index, updates), {}, aval)
