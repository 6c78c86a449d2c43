"""A small transformer of Flax NNX that predicts the next word of packed sentences.

The structure follows Flax's example ``lm1b`` (Apache-2.0), with its embedding as the last layer
and learned positions: https://github.com/google/flax/tree/main/examples/lm1b
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from conformance.lab.user_programs._data import integers

WORDS, WIDTH, LENGTH = 13, 8, 8
OPTIMIZER = optax.adamw(1e-3)


class Layer(nnx.Module):
    """Attention to the words before, and a hidden layer."""

    def __init__(self, rngs: Any) -> None:
        self.first, self.second = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            2, WIDTH, use_bias=False, dropout_rate=0.1, deterministic=False, decode=False, rngs=rngs
        )
        self.into = nnx.Linear(WIDTH, 2 * WIDTH, rngs=rngs)
        self.out = nnx.Linear(2 * WIDTH, WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: Any, mask: Any) -> Any:
        x = x + self.dropout(self.attention(self.first(x), mask=mask))
        return x + self.dropout(self.out(self.dropout(nnx.relu(self.into(self.second(x))))))


class Transformer(nnx.Module):
    """Words and positions become vectors; the table of words scores the next word too."""

    def __init__(self, rngs: Any) -> None:
        self.words = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.positions = nnx.Embed(LENGTH, WIDTH, rngs=rngs)
        self.layers = nnx.List([Layer(rngs) for _ in range(2)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, text: Any, position: Any, sentence: Any) -> Any:
        shifted = jnp.pad(text, ((0, 0), (1, 0)))[:, :-1] * (position > 0)
        x = self.words(shifted) + self.positions(position)
        same = nnx.make_attention_mask(sentence, sentence, jnp.equal)
        mask = nnx.combine_masks(nnx.make_causal_mask(text), same)
        for layer in self.layers:
            x = layer(x, mask)
        return self.words.attend(self.norm(x)) / jnp.sqrt(WIDTH)


def build(scale: int = 1) -> Any:
    """Returns a step of training by AdamW, and its arguments."""
    graph, params, others = nnx.split(Transformer(nnx.Rngs(0, dropout=1)), nnx.Param, ...)
    text = integers(0, WORDS, 3 * scale, LENGTH)
    # Each row holds two sentences, of five and of three words.
    numbers = jnp.arange(LENGTH)
    position = jnp.broadcast_to(jnp.where(numbers < 5, numbers, numbers - 5), text.shape)
    sentence = jnp.broadcast_to(numbers // 5, text.shape)

    def loss(params: Any, others: Any, *batch: Any) -> Any:
        net = nnx.merge(graph, params, others, copy=True)
        losses = optax.softmax_cross_entropy_with_integer_labels(net(*batch), batch[0])
        return losses.mean(), nnx.state(net, nnx.Not(nnx.Param))

    def step(params: Any, others: Any, state: Any, *batch: Any) -> Any:
        of_loss = jax.value_and_grad(loss, has_aux=True)
        (value, others), gradients = of_loss(params, others, *batch)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return optax.apply_updates(params, updates), others, state, value

    return step, (params, others, OPTIMIZER.init(params), text, position, sentence)
