"""A mixture of experts of Flax Linen: tokens go to their two best experts, up to a capacity."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from conformance.programs._data import normal, weights

OPTIMIZER = optax.adam(1e-3)
EXPERTS, CHOSEN = 4, 2


class Experts(nn.Module):
    """A router, and a hidden layer for each expert. Returns the result and a penalty."""

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        count, width = tokens.shape
        capacity = count * CHOSEN // EXPERTS
        shares = nn.softmax(nn.Dense(EXPERTS, use_bias=False, name="router")(tokens))
        weights, expert = jax.lax.top_k(shares, CHOSEN)
        flat = expert.reshape(-1)
        by_expert = jnp.argsort(flat)
        token = by_expert // CHOSEN
        load = jnp.bincount(flat, length=EXPERTS)
        rank = jnp.arange(flat.size) - (jnp.cumsum(load) - load)[flat[by_expert]]
        slot = jnp.where(rank < capacity, flat[by_expert] * capacity + rank, EXPERTS * capacity)
        sent = jnp.zeros((EXPERTS * capacity, width)).at[slot].set(tokens[token], mode="drop")
        init = nn.initializers.lecun_normal(batch_axis=0)
        into = self.param("into", init, (EXPERTS, width, 2 * width))
        out = self.param("out", init, (EXPERTS, 2 * width, width))
        hidden = nn.silu(jnp.einsum("ecd,edf->ecf", sent.reshape(EXPERTS, capacity, width), into))
        answers = jnp.einsum("ecf,efd->ecd", hidden, out).reshape(-1, width)
        back = answers.at[slot].get(mode="fill", fill_value=0)
        back = back * weights.reshape(-1)[by_expert][:, None]
        importance = jnp.zeros(EXPERTS).at[flat].add(weights.reshape(-1))
        spread, _ = jnp.histogram(shares, bins=4, weights=shares)
        return jnp.zeros_like(tokens).at[token].add(back), jnp.var(importance) + spread.std()


def build(scale: int = 1) -> Any:
    """Returns a step of training by Adam, and its arguments."""
    net = Experts()
    tokens, targets = normal(0, 24 * scale, 6), normal(1, 24 * scale, 6)
    params = weights(jax.eval_shape(net.init, jax.random.key(0), tokens))

    def loss(params: Any, tokens: Any, targets: Any) -> Any:
        result, penalty = net.apply(params, tokens)
        return optax.l2_loss(result, targets).mean() + 0.01 * penalty

    def step(params: Any, state: Any, tokens: Any, targets: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, tokens, targets)
        updates, state = OPTIMIZER.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), tokens, targets)
