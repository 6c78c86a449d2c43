"""Tokens that reduce, run along, sort or slide over axes.

A token, and an equation that it may write::

    token "sum", "jnp.sum({0}, axis={axes}, ...)"    v1 = jnp.sum(v0, axis=(1,), dtype=v0.dtype)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import ALL_FLOATS, COMPLEX, FLOATS, NUMBERS, token

#: The terms of a sum in stages, or of a running sum in blocks.
_MANY = 1100


def _reduced(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws the axes of a reduction."""
    most = options.get("axes", 3)
    operand = _many(pool, dtype)
    if operand is None:
        operand = pool.pick(dtype, least=1, nonempty=options.get("nonempty", False))
    aval = pool.aval(operand)
    axes = pool.dice.some_of(pool.axes(aval), pool.dice.between(1, most))
    shape = [size for axis, size in enumerate(aval.shape) if axis not in axes]
    if options.get("keeps"):
        shape = [1 if axis in axes else size for axis, size in enumerate(aval.shape)]
    params = {"axes": axes, "axis": axes[0]}
    return Choice((operand,), params, aval.with_shape(*shape).with_dtype(options.get("to", dtype)))


def _along(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an axis, and a direction along it."""
    operand = _long(pool, dtype) if options.get("ties") else _many(pool, dtype)
    if operand is None:
        operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    params = {"axis": pool.dice.one_of(pool.axes(aval)), "reverse": pool.dice.happens(40)}
    return Choice((operand,), params, aval.with_dtype(options.get("to", dtype)))


def _many(pool: Pool, dtype: str) -> int | None:
    """Returns an argument with more terms than are added at once, in a few draws of a bundle.

    Sums of 1024 terms have two stages, and longer running sums have blocks.
    """
    if pool.is_bundle and pool.dice.happens(8):
        return pool.argument(Aval((_MANY,), dtype))
    return None


def _long(pool: Pool, dtype: str) -> int:
    """Returns an operand of a sort, in half of the draws a long one with many equal elements.

    XLA's algorithm on a CPU keeps the order of equal elements by chance if there are 16 at most.
    """
    if dtype == "int32" or pool.dice.happens(50):
        return pool.pick(dtype, least=1, nonempty=True)
    return pool.argument(Aval((40,), dtype), kind="few")


def _pairs_along(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = _long(pool, dtype)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    return Choice((operand, pool.like(aval)), {"axis": axis}, aval)


def _highest(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    count = pool.dice.between(1, aval.shape[-1])
    result = aval.with_shape(*aval.shape[:-1], count).with_dtype(options.get("to", dtype))
    return Choice((operand,), {"count": count}, result)


def _window(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice | None:
    """Draws windows along the last one or two axes."""
    operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    axes = pool.axes(aval)[-2:]
    sizes, strides = [1] * len(aval.shape), [1] * len(aval.shape)
    padding, shape = [[0, 0] for _ in aval.shape], list(aval.shape)
    for axis in axes:
        sizes[axis] = pool.dice.between(1, min(4, aval.shape[axis]))
        strides[axis] = pool.dice.between(1, 3)
        most = sizes[axis] - 1
        padding[axis] = [pool.dice.between(0, most), pool.dice.between(0, most)]
        shape[axis] = (aval.shape[axis] + sum(padding[axis]) - sizes[axis]) // strides[axis] + 1
    params = {"sizes": sizes, "strides": strides, "padding": padding}
    return Choice((operand,), params, aval.with_shape(*shape))


token(
    "sum",
    _reduced,
    "jnp.sum({0}, axis={axes}, dtype={0}.dtype)",
    ALL_FLOATS,
    "reduce_sum",
    check="sum",
    weight=250,
    family="sums",
)
token(
    "sum_int",
    _reduced,
    "jnp.sum({0}, axis={axes}, dtype=np.int32)",
    ("int32",),
    "reduce_sum",
    check="same",
    weight=30,
)
token("sum_complex", _reduced, "jnp.sum({0}, axis={axes})", COMPLEX, "reduce_sum", check="none")
for _name in ("max", "min"):
    token(
        f"reduce_{_name}",
        _reduced,
        f"jnp.{_name}({{0}}, axis={{axes}})",
        NUMBERS,
        f"reduce_{_name}",
        check="extreme",
        family="extremes",
        nonempty=True,
    )
    token(
        f"arg{_name}",
        _reduced,
        f"lax.arg{_name}({{0}}, {{axis}}, np.int32)",
        ALL_FLOATS,
        f"arg{_name}",
        check="same",
        to="int32",
        axes=1,
        nonempty=True,
        weight=60,
    )
    token(
        f"cum{_name}",
        _along,
        f"lax.cum{_name}({{0}}, {{axis}}, reverse={{reverse}})",
        ALL_FLOATS,
        f"cum{_name}",
        check="extreme",
        weight=60,
        family="extremes",
    )
    _border = "-np.inf" if _name == "max" else "np.inf"
    _windows = (
        f"lax.reduce_window({{0}}, np.array({_border}, {{0}}.dtype), lax.{_name}, "
        "{sizes}, {strides}, {padding})"
    )
    token(f"window_{_name}", _window, _windows, FLOATS, f"reduce_window_{_name}", weight=60)
    # The derivative of a float64 is refused: `select_and_gather_add` has no path for it.
    token(
        f"wide_window_{_name}",
        _window,
        _windows,
        ("float64",),
        f"reduce_window_{_name}",
        has_derivative=False,
        weight=60,
    )
token(
    "window_sum",
    _window,
    "lax.reduce_window({0}, np.array(0, {0}.dtype), lax.add, {sizes}, {strides}, {padding})",
    ALL_FLOATS,
    "reduce_window_sum",
    check="sum",
    family="sums",
)
token(
    "prod",
    _reduced,
    "jnp.prod({0}, axis={axes}, dtype={0}.dtype)",
    FLOATS,
    "reduce_prod",
    check="product",
)
for _name in ("and", "or"):
    token(
        f"reduce_{_name}",
        _reduced,
        f"jnp.{'all' if _name == 'and' else 'any'}({{0}}, axis={{axes}})",
        ("bool",),
        f"reduce_{_name}",
        check="same",
        weight=20,
    )
token(
    "reduce_xor",
    _reduced,
    "jnp.bitwise_xor.reduce({0}, axis={axis})",
    ("int32",),
    "reduce_xor",
    check="same",
    axes=1,
    weight=20,
)
for _name in ("mean", "var"):
    token(
        _name,
        _reduced,
        f"jnp.{_name}({{0}}, axis={{axes}})",
        FLOATS,
        "",
        check="none",
        nonempty=True,
        weight=60,
    )
token(
    "logsumexp",
    _reduced,
    "jax.nn.logsumexp({0}, axis={axes})",
    FLOATS,
    "",
    check="none",
    nonempty=True,
    weight=60,
)
for _name in ("softmax", "log_softmax", "standardize"):
    token(
        _name, _along, f"jax.nn.{_name}({{0}}, axis={{axis}})", FLOATS, "", check="none", weight=60
    )
token(
    "cumsum",
    _along,
    "lax.cumsum({0}, {axis}, reverse={reverse})",
    ALL_FLOATS,
    "cumsum",
    check="cumsum",
    weight=300,
    family="sums",
)
token(
    "cumprod",
    _along,
    "lax.cumprod({0}, {axis}, reverse={reverse})",
    FLOATS,
    "cumprod",
    check="product",
    weight=60,
)
token(
    "cumlogsumexp",
    _along,
    "lax.cumlogsumexp({0}, {axis}, reverse={reverse})",
    FLOATS,
    "cumlogsumexp",
    check="none",
    weight=60,
)
token(
    "sort",
    _along,
    "jnp.sort({0}, axis={axis}, stable=False)",
    ALL_FLOATS,
    "sort",
    check="none",
    weight=60,
)
token(
    "argsort",
    _along,
    "jnp.argsort({0}, axis={axis}, stable=False).astype(np.int32)",
    NUMBERS,
    "sort",
    check="stable_order",
    family="extremes",
    to="int32",
    ties=True,
    weight=200,
)
token(
    "sort_pairs",
    _pairs_along,
    "lax.sort(({0}, {1}), dimension={axis}, num_keys=1, is_stable=False)[1]",
    ALL_FLOATS,
    "sort",
    check="stable_pairs",
    weight=200,
    family="extremes",
)
token("top_k", _highest, "lax.top_k({0}, {count})[0]", ALL_FLOATS, "top_k", check="none", weight=60)
token(
    "median",
    _reduced,
    "jnp.median({0}, axis={axis})",
    FLOATS,
    "",
    check="none",
    nonempty=True,
    axes=1,
    weight=40,
)
token(
    "norm",
    _reduced,
    "jnp.sqrt(jnp.sum({0} * {0}, axis={axes}))",
    FLOATS,
    "reduce_sum mul sqrt",
    check="none",
    weight=60,
)
token(
    "associative_scan",
    _along,
    "lax.associative_scan(jnp.multiply, {0}, axis={axis}, reverse={reverse})",
    FLOATS,
    "",
    check="none",
    weight=30,
)
