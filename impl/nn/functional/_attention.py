"""The computation of attention: scores, their softmax over the keys, and a mean of the values.

Both products are matrix products of a batch. Heads that share keys are rows of one matrix, so that
no key or value is copied and their gradients are products too.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.products import matmul
from impl.nn._dropout import dropped


@dataclasses.dataclass(frozen=True)
class Rules:
    """The static arguments of a call.

    Attributes:
        scale: The factor of the query.
        causal: Whether query i sees only the keys 0 to i.
        grouped: Whether consecutive heads of the query may share a head of the key.
        dropout: The share of the weights that is dropped.
    """

    scale: float
    causal: bool
    grouped: bool
    dropout: float

    def product(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """Multiplies [..., m, k] by [..., k, n], where batch dimensions broadcast.

        If heads are grouped, ``a`` may have several times as many heads as ``b``, in dimension -3.
        """
        shape = a.shape
        if self.grouped:
            # The heads of a group become rows of one matrix.
            heads = b.shape[-3]
            group = shape[-3] // heads if heads else 1
            a = a.reshape(*shape[:-3], heads, group * shape[-2], shape[-1])
        batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = matmul(*(jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b)))
        if self.grouped:
            batch = (*batch[:-1], shape[-3])
        return out.reshape(*batch, shape[-2], b.shape[-1])


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None,
    rules: Rules,
    dropout_key: jax.Array | None,
) -> jax.Array:
    """Computes the attention of checked arrays, all in the dtype of the computation.

    Args:
        query: Shape [..., queries, features].
        key: Shape [..., keys, features].
        value: Shape [..., keys, outputs].
        mask: Bools, True for the keys that a query sees; or floats to add to the scores.
        rules: The static arguments.
        dropout_key: The JAX key that decides which weights are dropped; None if none is.

    Returns:
        Shape [..., queries, outputs].
    """
    scores = rules.product(query * jnp.asarray(rules.scale, query.dtype), key.mT)
    if rules.causal:
        rows, columns = (jax.lax.broadcasted_iota(int, scores.shape[-2:], i) for i in (0, 1))
        mask = rows >= columns
    if mask is not None:
        mask = jnp.broadcast_to(mask, scores.shape)
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    weights = softmax(scores)
    if dropout_key is not None:
        weights = dropped(weights, dropout_key, rules.dropout)
    return rules.product(weights, value)


@jax.custom_jvp
def softmax(scores: jax.Array) -> jax.Array:
    """Returns the softmax along the last axis; 0 where all scores are minus infinity."""
    greatest = scores.max(-1, keepdims=True, initial=-jnp.inf)
    exponentials = jnp.exp(scores - jnp.where(jnp.isneginf(greatest), 0, greatest))
    divisor = exponentials.sum(-1, keepdims=True)
    return exponentials / jnp.where(divisor == 0, 1, divisor)


@softmax.defjvp
def _softmax_jvp(primals: Any, tangents: Any) -> Any:
    weights, (tangent,) = softmax(*primals), tangents
    return weights, weights * (tangent - (weights * tangent).sum(-1, keepdims=True))
