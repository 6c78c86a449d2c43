"""Tokens of products, convolutions, decompositions and transforms.

A token, and an equation that it may write::

    [matmul]  "{0} @ {1}"                v2 = v0 @ v1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval


def product(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a matrix or a batch of rows, and a matrix of weights."""
    first = pool.pick(dtype, least=1, most=2)
    aval = pool.aval(first)
    count = pool.dice.one_of((1, 3, 4, 8))
    second = pool.like(Aval((aval.shape[-1], count), dtype))
    to = options.get("to", dtype)
    return Choice((first, second), {}, aval.with_shape(*aval.shape[:-1], count).with_dtype(to))


def batched(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws two arrays that share their first axis."""
    first = pool.pick(dtype, least=2, most=2)
    aval = pool.aval(first)
    lead = aval.shape[:-2]
    if not lead:
        aval = Aval((2, *aval.shape), dtype)
        first = pool.like(aval)
        lead = (2,)
    count = pool.dice.one_of((1, 3, 4))
    second = pool.like(aval.with_shape(*lead, count, aval.shape[-1]))
    return Choice((first, second), {}, aval.with_shape(*lead, aval.shape[-2], count))


def contracted(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype, least=1, most=3)
    aval = pool.aval(first)
    axes = "cdefg"[: len(aval.shape)]
    kept = axes[: pool.dice.between(1 if aval.rows else 0, len(axes) - 1)]
    second = pool.like(Aval(aval.shape[len(kept) :], dtype))
    params = {"subscripts": f"{axes},{axes[len(kept) :]}->{kept}"}
    return Choice((first, second), params, aval.with_shape(*aval.shape[: len(kept)]))


def evaluated(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws a point of a polynomial, and its coefficients.

    With one coefficient, JAX before 0.12 multiplies 0 by the point, and JAX 0.12 does not.
    """
    point = pool.pick(dtype, most=2)
    coefficients = pool.like(Aval((pool.dice.between(2, 5),), dtype))
    return Choice((point, coefficients), {}, pool.aval(point))


def squared(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=2, most=2, rows=False)
    aval = pool.aval(operand)
    return Choice((operand,), {}, aval.with_shape(aval.shape[0], aval.shape[0]))


def ragged(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype, least=2, most=2, rows=False, nonempty=True)
    rows, inner = pool.aval(first).shape
    groups, count = pool.dice.one_of((1, 2, 3)), pool.dice.one_of((1, 4))
    second = pool.like(Aval((groups, inner, count), dtype))
    cut = pool.dice.between(0, rows)
    sizes = [cut, rows - cut, 0][:groups] if groups > 1 else [rows]
    return Choice((first, second), {"sizes": sizes}, Aval((rows, count), dtype))


def convolved(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws a convolution of one axis, with strides, dilations, padding and groups."""
    dice = pool.dice
    rows = bool(pool.rows) and dice.happens(60)
    batch = pool.rows if rows else dice.one_of((1, 2, 3))
    groups = dice.one_of((1, 1, 2))
    channels, outputs = groups * dice.between(1, 3), groups * dice.between(1, 2)
    size, taps = dice.one_of((4, 7, 8)), dice.between(1, 3)
    stride, dilation, spread = dice.between(1, 2), dice.between(1, 2), dice.between(1, 2)
    if pool.is_bundle:
        size, taps = dice.one_of((16, 24)), dice.one_of((2, 3, 12, 16))
        channels, outputs, dilation = groups, groups * 4, 1
    padding = [dice.between(0, 2), dice.between(0, 2)]
    wide = (size - 1) * spread + 1 + sum(padding) - ((taps - 1) * dilation + 1)
    image = pool.like(Aval((batch, channels, size), dtype, rows))
    kernel = pool.like(Aval((outputs, channels // groups, taps), dtype))
    params = {
        "stride": stride,
        "padding": padding,
        "spread": spread,
        "dilation": dilation,
        "groups": groups,
    }
    shape = (batch, outputs, max(wide // stride + 1, 0))
    return Choice((image, kernel), params, Aval(shape, dtype, rows))


def square(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a square matrix, and a right side for a solution."""
    size = pool.dice.one_of((1, 2, 3, 5))
    kind = "plain" if pool.dice.happens(80) else "few"
    operand = pool.argument(Aval((size, size), dtype), kind=kind)
    right = pool.like(Aval((size, 2), dtype))
    shape = {"matrix": (size, size), "right": (size, 2), "values": (size,), "number": ()}
    return Choice((operand, right), {}, Aval(shape[options["result"]], dtype))


def transformed(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an operand; a float64 has no products that are subnormal."""
    if dtype == "float64":
        operand = pool.argument(Aval(pool.shape(2, nonempty=True), dtype), kind="plain")
    else:
        operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    if options.get("halves"):
        aval = aval.with_shape(*aval.shape[:-1], aval.shape[-1] // 2 + 1)
    return Choice(
        (operand,), {}, aval.with_dtype("complex128" if dtype == "float64" else "complex64")
    )
