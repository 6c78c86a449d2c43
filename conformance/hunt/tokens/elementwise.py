"""Tokens of operations element by element.

A token, and an equation that it may write::

    [is_finite]  "lax.is_finite({0})"    v1 = lax.is_finite(v0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import FLOATS


def unary(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    aval = pool.aval(operand)
    return Choice((operand,), {}, aval.with_dtype(options.get("to", dtype)))


def function(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an operand; some have arguments near 0 and 1, where values are near the middle."""
    if pool.is_bundle:
        operand = pool.argument(Aval((64,), dtype))
        return Choice((operand,), {}, pool.aval(operand))
    if pool.dice.happens(30):
        operand = pool.argument(Aval((60,), dtype), kind="ties")
        return Choice((operand,), {}, pool.aval(operand))
    return unary(pool, dtype, options)


def remainder(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws two operands; in half of the draws they have numbers with a subnormal remainder."""
    if pool.dice.happens(50):
        aval = Aval((60,), dtype)
        operands = (pool.argument(aval, kind="borders"), pool.argument(aval, kind="borders"))
        return Choice(operands, {}, aval)
    return binary(pool, dtype, options)


def with_number(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws one of ``numbers`` besides the operand."""
    operand = pool.pick(dtype)
    params = {"number": pool.dice.one_of(options["numbers"])}
    return Choice((operand,), params, pool.aval(operand).with_dtype(options.get("to", dtype)))


def binary(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype)
    second, is_broadcast = pool.beside(first)
    params = {"broadcasts": True} if is_broadcast else {}
    return Choice((first, second), params, pool.aval(first).with_dtype(options.get("to", dtype)))


def used(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a value, and what it is multiplied by in each of its uses."""
    first, uses = pool.pick(dtype), options["uses"]
    aval = pool.aval(first)
    if pool.is_bundle and pool.dice.happens(70):
        return Choice((first, *pool.arguments_in_line(aval, uses)), {}, aval)
    return Choice((first, *(pool.like(aval) for _ in range(uses))), {}, aval)


def ternary(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype)
    aval = pool.aval(first)
    return Choice((first, pool.like(aval), pool.like(aval)), {}, aval)


def selected(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype)
    aval = pool.aval(first)
    return Choice((pool.like(aval.with_dtype("bool")), first, pool.like(aval)), {}, aval)


def converted(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    wide = ("float64",) if pool.aval(operand).dtype == "float64" or pool.dice.happens(15) else ()
    to = pool.dice.one_of([each for each in (*FLOATS, *wide) if each != dtype] or FLOATS)
    return Choice((operand,), {"to": to}, pool.aval(operand).with_dtype(to))
