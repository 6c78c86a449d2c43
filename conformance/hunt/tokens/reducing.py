"""Tokens that reduce, run along, sort or slide over axes.

A token, and an equation that it may write::

    [sum]  "jnp.sum({0}, axis={axes}, ...)"    v1 = jnp.sum(v0, axis=(1,), dtype=v0.dtype)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval

#: The terms of a sum in stages, or of a running sum in blocks.
_MANY = 1100


def reduced(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
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


def along(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
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


def pairs_along(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = _long(pool, dtype)
    aval = pool.aval(operand)
    axis = pool.dice.one_of(pool.axes(aval))
    return Choice((operand, pool.like(aval)), {"axis": axis}, aval)


def highest(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    count = pool.dice.between(1, aval.shape[-1])
    result = aval.with_shape(*aval.shape[:-1], count).with_dtype(options.get("to", dtype))
    return Choice((operand,), {"count": count}, result)


def window(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice | None:
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
