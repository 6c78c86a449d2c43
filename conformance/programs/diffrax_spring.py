"""A neural differential equation of Diffrax with adaptive steps, for springs of several kinds."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from conformance.programs._data import integers, normal

OPTIMIZER = optax.adam(1e-3)
KINDS, WIDTH = 3, 4
TIMES = (0.0, 0.3, 1.0)


class Model(eqx.Module):
    """The first state of each kind of spring, and the field in which all of them move."""

    starts: Any
    field: eqx.nn.MLP

    def __init__(self, key: Any) -> None:
        one, two = jax.random.split(key)
        self.starts = jax.random.normal(one, (KINDS, WIDTH))
        self.field = eqx.nn.MLP(WIDTH, WIDTH, 6, 1, activation=jnp.tanh, key=two)

    def __call__(self, spring: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda _, y, field: field(y) - y),
            diffrax.Tsit5(),
            TIMES[0],
            TIMES[-1],
            0.1,
            self.starts[spring],
            args=self.field,
            saveat=diffrax.SaveAt(ts=jnp.array(TIMES)),
            stepsize_controller=diffrax.PIDController(rtol=1e-2, atol=1e-3),
            max_steps=16,
        )
        return solution.ys


def build(scale: int = 1) -> Any:
    """Returns a step of training by Adam, and its arguments: springs, and their last states."""
    model = Model(jax.random.key(0))
    params, fixed = eqx.partition(model, eqx.is_inexact_array)
    springs, last = integers(0, KINDS, 20 * scale), normal(1, 20 * scale, WIDTH)

    def loss(params: Any, springs: Any, last: Any) -> Any:
        states = jax.vmap(eqx.combine(params, fixed))(springs)[:, -1]
        return jnp.mean((states - last) ** 2)

    def step(params: Any, state: Any, springs: Any, last: Any) -> Any:
        value, gradients = eqx.filter_value_and_grad(loss)(params, springs, last)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return eqx.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), springs, last)
