"""The facts of an equation of a jaxpr, by the names of ``spec/facts.toml``.

The lowering rules know only the types and the parameters of an equation. The audit knows more of
its values, and passes what it knows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl._kernels.launch import MAX_ELEMENTS

#: The scatters of JAX that combine updates with elements.
_COMBINING = ("lax.scatter_add", "lax.scatter_sub", "lax.scatter_mul")


def facts_of(
    primitive: str,
    params: Mapping[str, Any],
    operands: Sequence[Any],
    **known: spec.FactValue,
) -> dict[str, spec.FactValue]:
    """Returns the facts that rows about a primitive can ask for.

    Args:
        primitive: The name of the primitive in the jaxpr.
        params: The parameters of the equation.
        operands: The abstract values of its operands.
        **known: Facts that follow from more than the equation, such as ``iota_indices``. A fact of
            the equation itself is not replaced.

    Returns:
        The facts. It has every fact that a row about the primitive asks for; a fact that nobody
        proved is False.
    """
    op = spec.load().op_of_primitive.get(primitive)
    facts: dict[str, spec.FactValue] = {}
    if op in _COMBINING or op == "lax.scatter":
        facts = _of_scatter(params, *operands)
    elif op == "lax.select_and_scatter_add":
        facts = {"overlapping": overlapping(params)}
    if operands and hasattr(operands[0], "dtype"):
        facts["dtype"] = kind(operands[0].dtype)
    asked = {name for row in spec.load().primitives if row.op == op for name in row.when}
    return {**dict.fromkeys(asked, False), **known, **facts}


def kind(dtype: Any) -> str:
    """Returns the kind of number of a dtype; that of keys and other bits is ``integer``."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return "integer"
    if dtype == jnp.bool_:
        return "bool"
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return "complex"
    return "floating" if jnp.issubdtype(dtype, jnp.floating) else "integer"


def overlapping(params: Mapping[str, Any]) -> bool:
    """Returns whether two windows of a pool can share an element."""
    pairs = zip(params["window_dimensions"], params["window_strides"], strict=True)
    return any(stride < size for size, stride in pairs)


def _of_scatter(
    params: Mapping[str, Any], operand: Any, indices: Any, updates: Any
) -> dict[str, spec.FactValue]:
    sizes = [*operand.shape, *indices.shape, *updates.shape]
    known = all(isinstance(size, int) for size in sizes)
    facts: dict[str, spec.FactValue] = {
        "ordered_path_fits": known and _fits(operand, indices, updates),
        "applies_function": _applies_function(params.get("update_jaxpr")),
    }
    # A fact that is not proven here may be known to the caller.
    if params["unique_indices"]:
        facts["unique_indices"] = True
    if known and (_windows(params, indices) <= 1 or 0 in (*operand.shape, *updates.shape)):
        facts["one_update"] = True
    return facts


def _fits(*arrays: Any) -> bool:
    largest: int = max(math.prod(array.shape) for array in arrays)
    return largest <= MAX_ELEMENTS


def _windows(params: Mapping[str, Any], indices: Any) -> int:
    """Returns the number of windows that are written into each array of a batch."""
    batched = params["dimension_numbers"].scatter_indices_batching_dims
    return math.prod(size for axis, size in enumerate(indices.shape[:-1]) if axis not in batched)


def _applies_function(jaxpr: Any) -> bool:
    """Returns whether a scatter computes a function of the element, and reads no update."""
    if jaxpr is None:
        return False
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    update = jaxpr.invars[1]
    read = [atom for equation in jaxpr.eqns for atom in equation.invars]
    return not any(atom is update for atom in (*read, *jaxpr.outvars))
