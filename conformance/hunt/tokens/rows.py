"""Tokens that combine the rows that devices share.

A token, and an equation that it may write::

    [sum_of_rows]  "over_devices(...)"    v1 = over_devices(jnp.sum(v0, axis=0, ...))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval


def of_rows(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice | None:
    """Draws an operand whose rows are combined over the devices."""
    if not pool.rows:
        return None
    operand = pool.pick(dtype, rows=True)
    shape = pool.aval(operand).shape[0 if options.get("keeps") else 1 :]
    number = pool.dice.one_of(("1.0", "0.5", "3.0", "-0.1"))
    return Choice((operand,), {"number": number}, Aval(shape, dtype))


def product_of_rows(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice | None:
    if not pool.rows:
        return None
    first = pool.pick(dtype, rows=True, least=1, most=1)
    aval = pool.aval(first)
    second = pool.pick(dtype, rows=True, least=1, most=1)
    shape = (aval.shape[1], pool.aval(second).shape[1])
    return Choice((first, second), {}, Aval(shape, dtype))


def scatter_of_rows(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice | None:
    if not pool.rows:
        return None
    updates = pool.pick(dtype, rows=True)
    aval = pool.aval(updates)
    count = pool.dice.one_of((1, 3, 8))
    index = pool.argument(Aval((pool.rows,), "int32", rows=True), limit=count)
    return Choice((updates, index), {"count": count}, Aval((count, *aval.shape[1:]), dtype))
