"""Trains with gradients of 1, 2, 3 and 12 micro-batches, and compares the bits of the weights.

``MultiSteps`` stands in for ``optax.MultiSteps``: it gets the function of the gradient, and not the
gradient, so that it can add the terms of the gradient before they are rounded. After the first
micro-batch, Orbax saves the state and restores it, as after an interruption.

    python docs/examples/micro_batches.py

It needs ``optax`` and ``orbax-checkpoint``.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

import impl

STEPS, BATCH, WIDTH = 3, 48, 8


class State(NamedTuple):
    """The state of ``MultiSteps``: the optimizer's, the sum of gradients, and the micro-batches."""

    inner: Any
    total: impl.Accumulator
    added: jax.Array


class MultiSteps(NamedTuple):
    """An optimizer that takes a step after some micro-batches, as ``optax.MultiSteps`` does.

    Attributes:
        optimizer: The optimizer of a whole batch.
        every: The number of micro-batches of a step.
    """

    optimizer: optax.GradientTransformation
    every: int

    def init(self, gradient: Callable[..., Any], params: Any, *batch: jax.Array) -> State:
        """Returns the state before the first micro-batch, which a batch is like."""
        total = impl.Accumulator.like(params, gradient, params, *batch)
        return State(self.optimizer.init(params), total, jnp.int32(0))

    def update(
        self, gradient: Callable[..., Any], state: State, params: Any, *batch: jax.Array
    ) -> tuple[Any, State]:
        """Adds ``gradient(params, *batch)``; returns the updates of the weights, and the state.

        The updates are zeros until the last micro-batch of a step.
        """
        total = state.total.add(gradient, params, *batch)

        def step() -> tuple[Any, State]:
            # The sum of all terms, rounded once. It is no mean: the loss says what it divides by.
            updates, inner = self.optimizer.update(total.value(), state.inner, params)
            empty = impl.Accumulator.like(params, gradient, params, *batch)
            return updates, State(inner, empty, jnp.int32(0))

        def wait() -> tuple[Any, State]:
            return jax.tree.map(jnp.zeros_like, params), State(state.inner, total, state.added + 1)

        updates: tuple[Any, State] = jax.lax.cond(state.added == self.every - 1, step, wait)
        return updates


def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the errors of some rows, as a part of the mean over the whole batch."""
    hidden = jnp.tanh(x @ params["in"] + params["bias"])
    return jnp.sum((hidden @ params["out"] - y) ** 2) / BATCH


def saved_and_restored(state: State) -> State:
    """Returns a state that Orbax has written to a folder and read again."""
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as files:
        files.save(Path(folder) / "state", state)
        files.wait_until_finished()
        restored: State = files.restore(Path(folder) / "state", state)
    return restored


def train(every: int) -> str:
    """Returns the SHA-256 of the weights after some steps of micro-batches."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(BATCH, n)).astype(np.float32) for n in (WIDTH, 2))
    shapes = {"in": (WIDTH, WIDTH), "bias": (WIDTH,), "out": (WIDTH, 2)}
    params = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    optimizer = MultiSteps(optax.sgd(1e-2, momentum=0.9), every)

    @jax.jit
    def step(params: Any, state: State, x: jax.Array, y: jax.Array) -> tuple[Any, State]:
        updates, state = optimizer.update(jax.grad(loss), state, params, x, y)
        return optax.apply_updates(params, updates), state

    first = (jnp.asarray(each[: BATCH // every]) for each in (x, y))
    state = optimizer.init(jax.grad(loss), params, *first)
    for number in range(STEPS * every):
        part = slice(number % every * BATCH // every, (number % every + 1) * BATCH // every)
        params, state = step(params, state, x[part], y[part])
        if number == 0:
            state = saved_and_restored(state)
    arrays = map(np.asarray, jax.tree.leaves(params))
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


if __name__ == "__main__":
    impl.use_deterministic_algorithms(True, guarantee="portable", profile="complete")
    for micro_batches in (1, 2, 3, 12):
        print(f"{micro_batches:3} micro-batches: {train(micro_batches)[:16]}")
