"""Derivatives of scatter-accumulate by products, minima and maxima."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from impl._core.reductions import ReductionName
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.arithmetic import divide, multiply
from impl._primitives.gather import gather
from impl._primitives.scatter_accumulate import primitives, scatter_accumulate


def _jvp_of_extreme(by: ReductionName, primals: Any, tangents: Any, *, decision: Decision) -> Any:
    """All that are equal to the extreme share its tangent evenly, the initial value included."""
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
    """The tangent of a minimum or maximum: those of all that are equal to it share it evenly.

    Args:
        out: The extremes.
        first: Where the initial value has a share.
        operand_dot: The tangent of the initial value.
        indices: As in ``scatter_accumulate``.
        updates: As there.
        updates_dot: The tangent of the updates.
        decision: What each platform does.
    """
    # The extreme is the same in every order, and the sum of tangents is not.
    decision = decision.of_derivatives
    equal = updates == gather(out, indices, pullback=decision)
    add = functools.partial(scatter_accumulate, decision=decision)
    shares = add(first.astype(jnp.int32), indices, equal.astype(jnp.int32))
    total = add(
        jnp.where(first, operand_dot, 0),
        indices,
        jnp.where(equal, updates_dot, 0),
    )
    return divide(total, jnp.maximum(shares, 1).astype(total.dtype))


def _jvp_of_product(primals: Any, tangents: Any, *, decision: Decision) -> Any:
    """Each tangent counts times the product of all other factors of its place."""
    operand, indices, updates = primals
    fold = functools.partial(scatter_accumulate, decision=decision, by="mul")
    add = functools.partial(scatter_accumulate, decision=decision)
    out = fold(operand, indices, updates)
    if all(type(tangent) is ad.Zero for tangent in (tangents[0], tangents[2])):
        return out, _common.zero_tangent(out)
    operand_dot, _, updates_dot = map(ad.instantiate_zeros, tangents)
    zeros = add((operand == 0).astype(jnp.int32), indices, (updates == 0).astype(jnp.int32))
    # The product of the factors that are not 0. Where one is 0, only its own tangent counts.
    rest = fold(_one_for_zero(operand), indices, _one_for_zero(updates))
    of_operand = _others(operand, rest, zeros)
    read = functools.partial(gather, indices=indices, pullback=decision)
    of_updates = _others(updates, read(rest), read(zeros))
    return out, add(multiply(operand_dot, of_operand), indices, multiply(updates_dot, of_updates))


def _one_for_zero(factor: jax.Array) -> jax.Array:
    return jnp.where(factor == 0, jnp.ones_like(factor), factor)


def _others(factor: jax.Array, rest: jax.Array, zeros: jax.Array) -> jax.Array:
    """The product of a place's factors but for ``factor``."""
    alone = zeros == (factor == 0)  # no other factor is 0
    return jnp.where(alone, divide(rest, _one_for_zero(factor)), 0)


for _by in ("min", "max"):
    ad.primitive_jvps[primitives[_by]] = functools.partial(_jvp_of_extreme, _by)
ad.primitive_jvps[primitives["mul"]] = _jvp_of_product
