"""Seals the operands of equations in a portable scope of a program that is not portable otherwise.

The guarantee ``portable`` rounds each result before anything else uses it. A value from outside of
the scope is made by JAX's own lowering: XLA would contract a product there and a sum in the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import mlir

from impl._core.jax_internals import lowering, shardings, tags
from impl._exact import arithmetic


def sealed(context: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the operands of an equation, whose floats are rounded where it is in a scope.

    Args:
        context: The context of its lowering rule.
        operands: Its operands.
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
        rule = mlir.lower_fun(_of_parts, multiple_results=False)
        (result,) = rule(shardings.without_shardings(one), operand)
    return result


def _of_parts(value: jax.Array) -> jax.Array:
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return lax.complex(*map(arithmetic.seal, (lax.real(value), lax.imag(value))))
    return arithmetic.seal(value)
