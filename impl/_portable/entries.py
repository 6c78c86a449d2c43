"""Seals operands that enter a portable scope of a program without the guarantee.

The guarantee ``portable`` rounds each result before anything else uses it. Outside of the scope,
JAX's own lowering computes: XLA would contract a product from there and a sum in the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import mlir

from impl._exact import arithmetic
from impl._jax import lowering, shardings, tags


def sealed(context: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the operands of an equation; if the equation is in a scope, their floats are sealed.

    Args:
        context: The context of the equation's lowering rule.
        operands: The operands of the equation.
    """
    if tags.current() is None:
        return [*operands]
    return [
        _sealed(context, operand, aval) if _is_float(aval) else operand
        for operand, aval in zip(operands, context.avals_in, strict=True)
    ]


def _is_float(aval: Any) -> bool:
    return isinstance(aval, jax.core.ShapedArray) and jnp.issubdtype(aval.dtype, jnp.inexact)


def _sealed(context: Any, operand: Any, aval: Any) -> Any:
    with arithmetic.wide(), shardings.no_mesh():
        one = lowering.natively(context).replace(avals_in=[aval], avals_out=[aval])
        rule = mlir.lower_fun(_seal, multiple_results=False)
        (result,) = rule(shardings.without_shardings(one), operand)
    return result


def _seal(value: jax.Array) -> jax.Array:
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return lax.complex(*map(arithmetic.seal, (lax.real(value), lax.imag(value))))
    return arithmetic.seal(value)
