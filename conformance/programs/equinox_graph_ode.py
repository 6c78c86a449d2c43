"""A graph net of Equinox with sums and maxima over edges, then an equation of Diffrax per graph."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from conformance.programs._data import integers, normal

NODES, GRAPHS, FEATURES, WIDTH = 24, 4, 3, 8
OPTIMIZER = optax.adam(1e-3)


class Layer(eqx.Module):
    """Messages along edges, which update the state of the node that they reach."""

    message: eqx.nn.MLP
    update: eqx.nn.GRUCell
    norm: eqx.nn.LayerNorm

    def __init__(self, key: Any) -> None:
        one, two = jax.random.split(key)
        self.message = eqx.nn.MLP(2 * WIDTH, WIDTH, WIDTH, 1, key=one)
        self.update = eqx.nn.GRUCell(WIDTH, WIDTH, key=two)
        self.norm = eqx.nn.LayerNorm(WIDTH)

    def __call__(self, nodes: Any, senders: Any, receivers: Any) -> Any:
        pairs = jnp.concatenate([nodes[senders], nodes[receivers]], -1)
        messages = jax.vmap(self.message)(pairs)
        total = jax.ops.segment_sum(messages, receivers, NODES)
        most = jax.ops.segment_max(messages, receivers, NODES)
        inputs = total + jnp.where(jnp.isfinite(most), most, 0)
        return jax.vmap(self.norm)(jax.vmap(self.update)(inputs, nodes))


class Model(eqx.Module):
    """The layers, the mean of each graph, and a field along which that mean moves."""

    encode: eqx.nn.Linear
    layer: Layer
    field: eqx.nn.MLP
    decode: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.encode = eqx.nn.Linear(FEATURES, WIDTH, key=keys[0])
        self.layer = Layer(keys[1])
        self.field = eqx.nn.MLP(WIDTH, WIDTH, WIDTH, 1, activation=jnp.tanh, key=keys[2])
        self.decode = eqx.nn.Linear(WIDTH, 1, key=keys[3])

    def __call__(self, features: Any, senders: Any, receivers: Any, graph: Any) -> Any:
        nodes = self.layer(jax.vmap(self.encode)(features), senders, receivers)
        sizes = jax.ops.segment_sum(jnp.ones(NODES), graph, GRAPHS)
        means = jax.ops.segment_sum(nodes, graph, GRAPHS) / sizes[:, None]
        return jax.vmap(self.decode)(jax.vmap(self.moved)(means))[:, 0]

    def moved(self, start: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda _, y, field: field(y)),
            diffrax.Heun(),
            0.0,
            1.0,
            0.1,
            start,
            args=self.field,
            stepsize_controller=diffrax.PIDController(rtol=1e-2, atol=1e-3),
            max_steps=16,
        )
        return solution.ys[-1]


def build(scale: int = 1) -> Any:
    """Returns a step of training by Adam, and its arguments: weights, edges, graphs and targets."""
    params, fixed = eqx.partition(Model(jax.random.key(0)), eqx.is_inexact_array)
    features, targets = normal(0, NODES, FEATURES), normal(1, GRAPHS)
    senders, receivers = (integers(seed, NODES, 80 * scale) for seed in (2, 3))
    graph = jnp.repeat(jnp.arange(GRAPHS), NODES // GRAPHS)

    def loss(params: Any, senders: Any, receivers: Any) -> Any:
        model = eqx.combine(params, fixed)
        return jnp.mean((model(features, senders, receivers, graph) - targets) ** 2)

    def step(params: Any, state: Any, senders: Any, receivers: Any) -> Any:
        value, gradients = eqx.filter_value_and_grad(loss)(params, senders, receivers)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return eqx.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), senders, receivers)
