"""Tokens of control flow, custom rules, random numbers and layers of libraries.

A token, and an equation that it may write::

    token "jit", "jax.jit(...)({0})"           v1 = jax.jit(lambda x: jnp.sin(x) * x)(v0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import ALL_FLOATS, FLOATS, token


def _alone(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    return Choice((operand,), {"count": pool.dice.between(0, 3)}, pool.aval(operand))


def _chosen(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    aval = pool.aval(operand)
    branch = pool.argument(Aval((), "int32"), limit=3)
    return Choice((branch, operand, pool.like(aval)), {}, aval)


def _over_rows(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an array whose first axis a loop runs over."""
    operand = pool.pick(dtype, least=1, rows=False, nonempty=True)
    aval = pool.aval(operand)
    first = pool.like(Aval(aval.shape[1:], dtype))
    shape = aval.shape if options.get("stacks") else aval.shape[1:]
    return Choice((operand, first), {}, Aval(shape, dtype))


def _layer(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    rows = False if options.get("mixes_rows") else None
    operand = pool.pick(dtype, least=1, most=2, rows=rows, nonempty=True)
    aval = pool.aval(operand)
    width = options.get("width")
    return Choice((operand,), {}, aval.with_shape(*aval.shape[:-1], width or aval.shape[-1]))


def _drawn(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    seed = pool.argument(Aval((), "int32"), limit=1000)
    shape = pool.shape(pool.dice.between(1, 2))
    return Choice((seed,), {"shape": list(shape), "to": dtype}, Aval(shape, dtype))


def _attended(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    rows = bool(pool.rows) and pool.dice.happens(60)
    aval = Aval((pool.rows if rows else 2, 4, 2, 4), dtype, rows)
    return Choice((pool.like(aval), pool.like(aval), pool.like(aval)), {}, aval)


def _in_parts(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws rows that a loop adds part by part."""
    count = pool.dice.one_of((1, 2, 3, 4))
    rows, *rest = (
        count * pool.dice.one_of((1, 2, 5)),
        *pool.shape(pool.dice.below(2), nonempty=True),
    )
    operand = pool.argument(Aval((rows, *rest), dtype))
    return Choice((operand,), {"count": count}, Aval(tuple(rest), dtype))


def _products_in_parts(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws two arrays of rows, whose products a loop adds part by part."""
    count = pool.dice.one_of((1, 2, 3, 4))
    rows = count * pool.dice.one_of((1, 2, 5))
    shape = (pool.dice.one_of((1, 2, 4)), pool.dice.one_of((1, 3, 4)))
    operands = tuple(pool.argument(Aval((rows, columns), dtype)) for columns in shape)
    return Choice(operands, {"count": count}, Aval(shape, dtype))


token(
    "jit", _alone, "jax.jit(lambda x: jnp.sin(x) * x)({0})", FLOATS, "jit", check="loose", weight=60
)
token(
    "checkpoint",
    _alone,
    "jax.checkpoint(lambda x: jnp.tanh(x) * x)({0})",
    FLOATS,
    "remat2",
    check="loose",
    weight=60,
)
token(
    "while",
    _alone,
    "lax.while_loop(lambda s: s[0] < {count}, lambda s: (s[0] + 1, s[1] * s[1] + s[1]), (0, {0}))[1]",
    FLOATS,
    "while",
    check="none",
    has_derivative=False,
    weight=80,
)
token(
    "fori",
    _alone,
    "lax.fori_loop(0, {count}, lambda _, x: x * x + 0.5, {0})",
    FLOATS,
    "scan",
    check="none",
    weight=80,
)
token(
    "switch",
    _chosen,
    "lax.switch({0}, [lambda x, y: x * y, lambda x, y: x + y, lambda x, y: y], {1}, {2})",
    FLOATS,
    "cond",
    check="none",
    weight=80,
)
token(
    "scan_sum",
    _over_rows,
    "lax.scan(lambda c, x: (c + x, None), {1}, {0})[0]",
    ALL_FLOATS,
    "scan",
    check="none",
    weight=120,
)
# A loop that adds sums or products of parts has the bits of one sum or product of all rows.
token(
    "sum_in_a_loop",
    _in_parts,
    "lax.scan(lambda c, x: (c + jnp.sum(x, 0, dtype=x.dtype), None), "
    "jnp.full({0}.shape[1:], -0.0, {0}.dtype), {0}.reshape({count}, -1, *{0}.shape[1:]))[0]",
    FLOATS,
    "scan reduce_sum",
    check="sum",
    weight=60,
    family="sums",
)
token(
    "product_in_a_loop",
    _products_in_parts,
    "lax.scan(lambda c, x: (c + x[0].T @ x[1], None), "
    "jnp.zeros(({0}.shape[1], {1}.shape[1]), {0}.dtype), "
    "({0}.reshape({count}, -1, {0}.shape[1]), {1}.reshape({count}, -1, {1}.shape[1])))[0]",
    FLOATS,
    "scan dot_general",
    check="product_of",
    weight=60,
    family="products",
)
token(
    "scan_products",
    _over_rows,
    "lax.scan(lambda c, x: (c + x * x, None), {1}, {0})[0]",
    FLOATS,
    "scan",
    check="none",
    weight=80,
)
token(
    "scan_stacks",
    _over_rows,
    "lax.scan(lambda c, x: (jnp.tanh(c + x), c * x), {1}, {0})[1]",
    FLOATS,
    "scan",
    check="none",
    weight=80,
    stacks=True,
)
token(
    "map",
    _over_rows,
    "lax.map(lambda x: x * x + x, {0})",
    FLOATS,
    "scan",
    check="none",
    weight=60,
    stacks=True,
)
token(
    "custom_vjp",
    _alone,
    "custom_square({0})",
    FLOATS,
    "custom_vjp_call",
    check="none",
    weight=60,
)
token("custom_jvp", _alone, "custom_cube({0})", FLOATS, "custom_jvp_call", check="none", weight=60)
token(
    "custom_solve",
    _alone,
    "lax.custom_linear_solve(lambda x: 2 * x, {0}, lambda f, b: b / 2, symmetric=True)",
    FLOATS,
    "custom_linear_solve",
    check="none",
    weight=30,
)
token(
    "uniform",
    _drawn,
    "jax.random.uniform(jax.random.key({0}), {shape}, jnp.{to})",
    FLOATS,
    "random_bits random_seed",
    check="none",
    weight=60,
)
token(
    "normal",
    _drawn,
    "jax.random.normal(jax.random.key({0}), {shape}, jnp.{to})",
    FLOATS,
    "random_bits",
    check="none",
    weight=60,
)
token(
    "gamma",
    _drawn,
    "jax.random.gamma(jax.random.key({0}), 2.5, {shape}, jnp.{to})",
    ("float32",),
    "random_gamma",
    check="none",
    weight=20,
)
token(
    "split_keys",
    _drawn,
    "jax.random.normal(jax.random.fold_in(jax.random.split(jax.random.key({0}))[1], 3), {shape}, jnp.{to})",
    ("float32",),
    "random_split random_fold_in",
    check="none",
    weight=30,
)
token(
    "attention",
    _attended,
    "jax.nn.dot_product_attention({0}, {1}, {2}, is_causal=True)",
    ("float32", "bfloat16"),
    "",
    check="none",
    weight=80,
)
token(
    "flax_norm",
    _layer,
    "flax.linen.LayerNorm().apply({{'params': {{'scale': jnp.ones({0}.shape[-1]), 'bias': jnp.zeros({0}.shape[-1])}}}}, {0})",
    ("float32",),
    "",
    check="none",
    weight=40,
)
token(
    "equinox_linear",
    _layer,
    "jnp.vectorize(equinox.nn.Linear({0}.shape[-1], 3, key=jax.random.key(1)), signature='(i)->(o)')({0})",
    ("float32",),
    "",
    check="none",
    weight=40,
    width=3,
)
token(
    "optax_clip",
    _layer,
    "optax.clip_by_global_norm(1.0).update([{0}], optax.EmptyState())[0][0]",
    ("float32",),
    "",
    check="none",
    weight=40,
    mixes_rows=True,
)
