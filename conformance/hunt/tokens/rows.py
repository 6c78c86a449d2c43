"""Tokens that combine the rows that devices share.

A token, and an equation that it may write::

    token "sum_of_rows", "over_devices(...)"    v1 = over_devices(jnp.sum(v0, axis=0, ...))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import ALL_FLOATS, FLOATS, token


def _of_rows(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice | None:
    """Draws an operand whose rows are combined over the devices."""
    if not pool.rows:
        return None
    operand = pool.pick(dtype, rows=True)
    shape = pool.aval(operand).shape[0 if options.get("keeps") else 1 :]
    number = pool.dice.one_of(("1.0", "0.5", "3.0", "-0.1"))
    return Choice((operand,), {"number": number}, Aval(shape, dtype))


def _product_of_rows(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice | None:
    if not pool.rows:
        return None
    first = pool.pick(dtype, rows=True, least=1, most=1)
    aval = pool.aval(first)
    second = pool.pick(dtype, rows=True, least=1, most=1)
    shape = (aval.shape[1], pool.aval(second).shape[1])
    return Choice((first, second), {}, Aval(shape, dtype))


def _scatter_of_rows(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice | None:
    if not pool.rows:
        return None
    updates = pool.pick(dtype, rows=True)
    aval = pool.aval(updates)
    count = pool.dice.one_of((1, 3, 8))
    index = pool.argument(Aval((pool.rows,), "int32", rows=True), limit=count)
    return Choice((updates, index), {"count": count}, Aval((count, *aval.shape[1:]), dtype))


token(
    "sum_of_rows",
    _of_rows,
    "over_devices(jnp.sum({0}, axis=0, dtype={0}.dtype))",
    ALL_FLOATS,
    "psum reduce_sum",
    check="sum",
    weight=300,
    family="sums",
)
token(
    "scaled_sum_of_rows",
    _of_rows,
    "over_devices(-{number} * jnp.sum({0}, axis=0, dtype={0}.dtype))",
    FLOATS,
    "psum mul",
    check="none",
    weight=100,
)
# After the second iteration, both values of the loop are sums of a device's own rows.
token(
    "sums_of_rows_in_turn",
    _of_rows,
    "over_devices(lax.fori_loop(0, 3, lambda _, c: (c[1], c[0] + jnp.sum({0}, axis=0, "
    "dtype={0}.dtype)), (jnp.zeros({0}.shape[1:], {0}.dtype),) * 2)[0])",
    FLOATS,
    "psum scan",
    check="none",
    weight=100,
    family="sums",
)
token(
    "sum_of_squares",
    _of_rows,
    "over_devices(jnp.sum({0} * {0}, axis=0, dtype={0}.dtype))",
    FLOATS,
    "psum",
    check="sum",
    weight=100,
)
token(
    "greatest_of_rows",
    _of_rows,
    "greatest_of_devices(jnp.max({0}, axis=0))",
    ALL_FLOATS,
    "pmax",
    has_derivative=False,
    check="none",
)
token(
    "least_of_rows",
    _of_rows,
    "least_of_devices(jnp.min({0}, axis=0))",
    ALL_FLOATS,
    "pmin",
    has_derivative=False,
    check="none",
)
token(
    "all_rows", _of_rows, "rows_of_devices({0})", ALL_FLOATS, "all_gather", check="same", keeps=True
)
token(
    "product_of_rows",
    _product_of_rows,
    "over_devices(jnp.einsum('bi,bj->ij', {0}, {1}))",
    FLOATS,
    "psum dot_general",
    check="product_of",
    weight=300,
    family="products",
)
token(
    "scatter_of_rows",
    _scatter_of_rows,
    "over_devices(jnp.zeros(({count}, *{0}.shape[1:]), {0}.dtype).at[{1}].add({0}))",
    FLOATS,
    "psum scatter-add",
    check="scatter",
    weight=200,
    family="sums",
)
