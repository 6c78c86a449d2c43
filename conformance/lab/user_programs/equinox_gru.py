"""A recurrent language model of Equinox: an embedding and a GRU in a scan, over a batch."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from conformance.lab.user_programs._data import integers

OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
WORDS, WIDTH = 11, 6


class Model(eqx.Module):
    """An embedding, a cell, and scores of the next word. The backward pass computes these again."""

    embedding: eqx.nn.Embedding
    cell: eqx.nn.GRUCell
    norm: eqx.nn.LayerNorm
    dropout: eqx.nn.Dropout
    scores: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        one, two, three = jax.random.split(key, 3)
        self.embedding = eqx.nn.Embedding(WORDS, WIDTH, key=one)
        self.cell = eqx.nn.GRUCell(WIDTH, WIDTH, key=two)
        self.scores = eqx.nn.Linear(WIDTH, WORDS, key=three)
        self.norm, self.dropout = eqx.nn.LayerNorm(WIDTH), eqx.nn.Dropout(0.1)

    def __call__(self, words: Any, key: Any) -> Any:
        def advance(state: Any, vector: Any) -> Any:
            state = self.cell(vector, state)
            return state, state

        vectors = jax.vmap(self.embedding)(words)
        _, states = jax.lax.scan(advance, jnp.zeros(WIDTH), vectors)
        states = self.dropout(states, key=key)
        return jax.vmap(eqx.filter_checkpoint(lambda x: self.scores(self.norm(x))))(states)


def build(scale: int = 1) -> Any:
    """Returns a step of training by Adam with clipped gradients, and its arguments."""
    model = Model(jax.random.key(0))
    params, fixed = eqx.partition(model, eqx.is_inexact_array)
    text = integers(0, WORDS, 4 * scale, 9)

    def loss(params: Any, text: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(text))
        scores = jax.vmap(eqx.combine(params, fixed))(text[:, :-1], keys)
        return optax.softmax_cross_entropy_with_integer_labels(scores, text[:, 1:]).mean()

    def step(params: Any, state: Any, text: Any, key: Any) -> Any:
        value, gradients = eqx.filter_value_and_grad(loss)(params, text, key)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return eqx.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), text, jax.random.key(1))
