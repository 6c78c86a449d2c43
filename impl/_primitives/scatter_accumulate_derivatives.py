"""Derivatives of scatter-accumulate by products, minima and maxima."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from impl._core.lax_functions import where
from impl._families.reductions import ReductionName
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.arithmetic import divide, multiply
from impl._primitives.gather import gather
from impl._primitives.scatter_accumulate import primitives, scatter_accumulate


def _jvp_of_extreme(by: ReductionName, primals: Any, tangents: Any, *, decision: Decision) -> Any:
    """Computes the tangent, which the updates and the initial value that are extreme share."""
    operand, indices, updates = primals
    out = scatter_accumulate(*primals, decision=decision, by=by)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    return out, tangent_of_extreme(
        out, operand == out, operand_dot, indices, updates, updates_dot, decision=decision
    )


def tangent_of_extreme(
    out: jax.Array,
    first: jax.Array,
    operand_dot: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    updates_dot: jax.Array,
    *,
    decision: Decision,
) -> jax.Array:
    """Computes the tangent of a minimum or maximum: the mean over all elements equal to it.

    Args:
        out: The extremes.
        first: Whether each initial value counts among the elements equal to its extreme.
        operand_dot: The tangent of the initial value.
        indices: As in ``scatter_accumulate``.
        updates: As in ``scatter_accumulate``.
        updates_dot: The tangent of the updates.
        decision: The decision of the op.
    """
    # The extreme is the same in every order, but the sum of tangents is not.
    decision = decision.of_derivatives
    equal = updates == gather(out, indices, pullback=decision)
    add = functools.partial(scatter_accumulate, decision=decision)
    count = add(first.astype(jnp.int32), indices, equal.astype(jnp.int32))
    total = add(
        where(first, operand_dot, 0),
        indices,
        where(equal, updates_dot, 0),
    )
    return divide(total, jnp.maximum(count, 1).astype(total.dtype))


def _jvp_of_product(primals: Any, tangents: Any, *, decision: Decision) -> Any:
    """Computes the tangent: the sum of each tangent times all other factors of its destination."""
    operand, indices, updates = primals
    fold = functools.partial(scatter_accumulate, decision=decision, by="mul")
    add = functools.partial(scatter_accumulate, decision=decision)
    out = fold(operand, indices, updates)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    zeros = add((operand == 0).astype(jnp.int32), indices, (updates == 0).astype(jnp.int32))
    # The product of the factors that are not 0. If one factor is 0, only its own tangent counts.
    nonzero = fold(_replace_zero(operand), indices, _replace_zero(updates))
    of_operand = _product_of_others(operand, nonzero, zeros)
    read = functools.partial(gather, indices=indices, pullback=decision)
    of_updates = _product_of_others(updates, read(nonzero), read(zeros))
    return out, add(multiply(operand_dot, of_operand), indices, multiply(updates_dot, of_updates))


def _replace_zero(factor: jax.Array) -> jax.Array:
    return where(factor == 0, jnp.ones_like(factor), factor)


def _product_of_others(factor: jax.Array, nonzero: jax.Array, zeros: jax.Array) -> jax.Array:
    """Returns the product of all factors of a destination except ``factor``.

    ``nonzero`` is the product of the factors that are not 0, and ``zeros`` the number of zeros.
    """
    others_are_nonzero = zeros == (factor == 0)
    return where(others_are_nonzero, divide(nonzero, _replace_zero(factor)), 0)


for _by in ("min", "max"):
    ad.primitive_jvps[primitives[_by]] = functools.partial(_jvp_of_extreme, _by)
ad.primitive_jvps[primitives["mul"]] = _jvp_of_product
