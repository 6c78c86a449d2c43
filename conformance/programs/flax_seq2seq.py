"""Two LSTMs of Flax Linen that read a sequence and write another.

The structure follows Flax's example ``seq2seq`` (Apache-2.0), with an embedding where that one
has one-hot vectors: https://github.com/google/flax/blob/main/examples/seq2seq/models.py
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from conformance.programs._data import integers, weights

OPTIMIZER = optax.adam(3e-3)
WORDS, END = 12, 1


class Writer(nn.RNNCellBase):
    """An LSTM that draws a word from its own scores at each step."""

    @nn.compact
    def __call__(self, carry: Any, x: Any) -> Any:
        state, _ = carry
        state, hidden = nn.LSTMCell(6)(state, x)
        scores = nn.Dense(WORDS)(hidden)
        word = jax.random.categorical(self.make_rng("words"), scores)
        return (state, word), (scores, word)

    @property
    def num_feature_axes(self) -> int:
        return 1


class Translator(nn.Module):
    """The reader's state after the last word of each sequence is the writer's first state."""

    @nn.compact
    def __call__(self, read: Any, written: Any) -> Any:
        embed = nn.Embed(WORDS, 5)
        reader = nn.RNN(nn.LSTMCell(6), return_carry=True)
        writer = nn.RNN(Writer(), split_rngs={"params": False, "words": True})
        lengths = jnp.argmax(read == END, axis=-1)
        state, _ = reader(embed(read), seq_lengths=lengths)
        return writer(embed(written[:, :-1]), initial_carry=(state, written[:, 0]))


def build(scale: int = 1) -> Any:
    """Returns a step of training by Adam, and its arguments."""
    net, key = Translator(), jax.random.key(0)
    read = integers(0, WORDS - 2, 4 * scale, 6).at[:, 4].set(END - 2) + 2
    written = integers(1, WORDS, 4 * scale, 5)
    params = weights(jax.eval_shape(net.init, {"params": key, "words": key}, read, written))

    def loss(params: Any, read: Any, written: Any, key: Any) -> Any:
        scores, _ = net.apply(params, read, written, rngs={"words": key})
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, written[:, 1:])
        lengths = jnp.argmax(written == END, axis=-1)
        seen = (
            jnp.arange(losses.shape[1]) < jnp.where(lengths == 0, losses.shape[1], lengths)[:, None]
        )
        return jnp.sum(losses * seen) / jnp.sum(seen)

    def step(params: Any, state: Any, read: Any, written: Any, key: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, read, written, key)
        updates, state = OPTIMIZER.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), read, written, key)
