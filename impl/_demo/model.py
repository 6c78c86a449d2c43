"""A small model to train, in plain JAX: it predicts the next character from the eight before it.

The gradient of its embedding table adds thousands of rows into a table of about a hundred rows. A
scatter with this many contributions to each destination is common.
"""

from __future__ import annotations

import dataclasses
import functools
from pydoc_data.topics import topics
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

CONTEXT = 8

Weights: TypeAlias = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a training run.

    Attributes:
        steps: Number of updates.
        batch: Number of positions of the text in each update.
        width: Length of the embedding of a character.
        hidden: Number of units of the hidden layer.
        rate: Learning rate of Adam.
    """

    steps: int = 400
    batch: int = 256
    width: int = 16
    hidden: int = 128
    rate: float = 4e-3


@dataclasses.dataclass(frozen=True)
class Text:
    """A text, in which each character is a number.

    Attributes:
        train: The first nine tenths.
        held_out: The last tenth, which the model is not trained on.
        alphabet: Number of different characters.
    """

    train: np.ndarray
    held_out: np.ndarray
    alphabet: int

    @property
    def most_frequent(self) -> float:
        """Share of the held-out text that is the most frequent character of the training text."""
        guess = np.bincount(self.train).argmax()
        return float(np.mean(self.held_out[CONTEXT:] == guess))


@functools.cache
def load_text() -> Text:
    """Returns the Python language reference, which is in the standard library for ``help()``."""
    text = "".join(topics[name] for name in sorted(topics))
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    alphabet, numbers = np.unique(points, return_inverse=True)
    train, held_out = np.split(numbers.astype(np.int32), [len(numbers) * 9 // 10])
    return Text(train, held_out, len(alphabet))


def initial_weights(key: jax.Array, settings: Settings, alphabet: int) -> Weights:
    table, into, out = jax.random.split(key, 3)
    joined = CONTEXT * settings.width
    return {
        "table": jax.random.normal(table, (alphabet, settings.width)),
        "into": jax.random.normal(into, (joined, settings.hidden)) * joined**-0.5,
        "into_bias": jnp.zeros(settings.hidden),
        "out": jax.random.normal(out, (settings.hidden, alphabet)) * settings.hidden**-0.5,
        "out_bias": jnp.zeros(alphabet),
    }


def logits(weights: Weights, contexts: jax.Array) -> jax.Array:
    """Returns a score for each next character: contexts are [n, CONTEXT], scores [n, alphabet]."""
    joined = weights["table"][contexts].reshape(contexts.shape[0], -1)
    hidden = jax.nn.relu(joined @ weights["into"] + weights["into_bias"])
    return hidden @ weights["out"] + weights["out_bias"]


def loss(weights: Weights, contexts: jax.Array, following: jax.Array) -> jax.Array:
    """Returns the mean cross entropy."""
    scores = jax.nn.log_softmax(logits(weights, contexts))
    return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(following, scores.shape[1]), axis=1))


@jax.jit
def accuracy(weights: Weights, contexts: jax.Array, following: jax.Array) -> jax.Array:
    """Returns the share of the contexts for which the next character has the highest score."""
    return jnp.mean(jnp.argmax(logits(weights, contexts), axis=1) == following)


def windows(text: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the contexts that begin at the given positions, and the character after each."""
    return text[starts[:, None] + jnp.arange(CONTEXT)], text[starts + CONTEXT]
