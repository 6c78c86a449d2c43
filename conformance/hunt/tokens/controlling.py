"""Tokens of control flow, custom rules, random numbers and layers of libraries.

A token, and an equation that it may write::

    [jit]  "jax.jit(...)({0})"           v1 = jax.jit(lambda x: jnp.sin(x) * x)(v0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval


def alone(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    return Choice((operand,), {"count": pool.dice.between(0, 3)}, pool.aval(operand))


def chosen(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    aval = pool.aval(operand)
    branch = pool.argument(Aval((), "int32"), limit=3)
    return Choice((branch, operand, pool.like(aval)), {}, aval)


def over_rows(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an array whose first axis a loop runs over."""
    operand = pool.pick(dtype, least=1, rows=False, nonempty=True)
    aval = pool.aval(operand)
    first = pool.like(Aval(aval.shape[1:], dtype))
    shape = aval.shape if options.get("stacks") else aval.shape[1:]
    return Choice((operand, first), {}, Aval(shape, dtype))


def layer(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    rows = False if options.get("mixes_rows") else None
    operand = pool.pick(dtype, least=1, most=2, rows=rows, nonempty=True)
    aval = pool.aval(operand)
    width = options.get("width")
    return Choice((operand,), {}, aval.with_shape(*aval.shape[:-1], width or aval.shape[-1]))


def drawn(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    seed = pool.argument(Aval((), "int32"), limit=1000)
    shape = pool.shape(pool.dice.between(1, 2))
    return Choice((seed,), {"shape": list(shape), "to": dtype}, Aval(shape, dtype))


def attended(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    rows = bool(pool.rows) and pool.dice.happens(60)
    aval = Aval((pool.rows if rows else 2, 4, 2, 4), dtype, rows)
    return Choice((pool.like(aval), pool.like(aval), pool.like(aval)), {}, aval)


def in_parts(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws rows that a loop adds part by part."""
    count = pool.dice.one_of((1, 2, 3, 4))
    rows, *rest = (
        count * pool.dice.one_of((1, 2, 5)),
        *pool.shape(pool.dice.below(2), nonempty=True),
    )
    operand = pool.argument(Aval((rows, *rest), dtype))
    return Choice((operand,), {"count": count}, Aval(tuple(rest), dtype))


def products_in_parts(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws two arrays of rows, whose products a loop adds part by part."""
    count = pool.dice.one_of((1, 2, 3, 4))
    rows = count * pool.dice.one_of((1, 2, 5))
    shape = (pool.dice.one_of((1, 2, 4)), pool.dice.one_of((1, 3, 4)))
    operands = tuple(pool.argument(Aval((rows, columns), dtype)) for columns in shape)
    return Choice(operands, {"count": count}, Aval(shape, dtype))
