"""Training of the model in plain JAX: batches by a key, Adam, one jitted loop over all steps."""

from __future__ import annotations

import dataclasses
import functools
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._demo import model
from impl._demo.model import Settings, Text, Weights
from impl._demo.report import fingerprint

#: Weights, and the running means of gradients and of their squares.
State: TypeAlias = tuple[Weights, Weights, Weights]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a training run, measured on the held-out text.

    Attributes:
        loss: Mean cross entropy before and after training.
        accuracy: Share of right predictions before and after training.
        most_frequent: Share of right predictions if the prediction is always the most frequent
            character.
        weights: SHA-256 of the weights after training.
    """

    loss: tuple[float, float]
    accuracy: tuple[float, float]
    most_frequent: float
    weights: str


def run(settings: Settings) -> Outcome:
    """Trains under the mode of this thread, and measures the outcome."""
    text = model.load_text()
    weights = start = model.initial_weights(jax.random.key(0), settings, text.alphabet)
    weights = train(weights, text, settings)
    before, after = evaluate(start, text), evaluate(weights, text)
    return Outcome(
        loss=(before[0], after[0]),
        accuracy=(before[1], after[1]),
        most_frequent=text.most_frequent,
        weights=fingerprint(weights),
    )


def train(weights: Weights, text: Text, settings: Settings) -> Weights:
    """Returns the weights after all steps."""
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state: State = (weights, zeros, zeros)
    state = all_steps(state, jnp.asarray(text.train), jax.random.key(1), settings)
    return state[0]


@functools.partial(jax.jit, static_argnames="settings")
def all_steps(state: State, text: jax.Array, key: jax.Array, settings: Settings) -> State:
    """Returns the state after all updates."""
    return jax.lax.fori_loop(  # type: ignore[no-any-return]  # JAX types trees as Any
        1, settings.steps + 1, lambda number, state: step(state, text, key, number, settings), state
    )


def step(
    state: State, text: jax.Array, key: jax.Array, number: jax.Array, settings: Settings
) -> State:
    """Returns the state after one update by Adam; the key and the number pick the batch."""
    weights, mean, square = state
    positions = text.shape[0] - model.CONTEXT
    starts = jax.random.randint(jax.random.fold_in(key, number), (settings.batch,), 0, positions)
    gradient = jax.grad(model.loss)(weights, *model.windows(text, starts))
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
    rate = settings.rate * jnp.sqrt(1 - 0.99**number) / (1 - 0.9**number)
    weights = jax.tree.map(
        lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square
    )
    return weights, mean, square


def evaluate(weights: Weights, text: Text) -> tuple[float, float]:
    """Returns loss and accuracy at positions spread evenly over the held-out text."""
    starts = np.linspace(0, len(text.held_out) - model.CONTEXT - 1, 8192, dtype=np.int32)
    batch = model.windows(jnp.asarray(text.held_out), jnp.asarray(starts))
    return float(jax.jit(model.loss)(weights, *batch)), float(model.accuracy(weights, *batch))
