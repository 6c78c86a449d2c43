"""Nets of Equinox, which are trained by optimizers of Optax.

The step of ``equinox_mnist`` and the shapes of its data::

    step(params, state, images, labels)    the next params and state, and the loss
    images, labels                         float32[6, 1, 12, 12], int32[6]
"""

from __future__ import annotations

import functools
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from conformance.programs import trained
from conformance.programs._data import integers, normal

WIDTH = 8


_trained = functools.partial(trained, eqx.filter_value_and_grad, eqx.apply_updates)


class Net(eqx.Module):
    """A list of layers, some of which are functions of JAX."""

    layers: list[Any]

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(1, 3, kernel_size=4, key=keys[0]),
            eqx.nn.MaxPool2d(kernel_size=2),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(3 * 8 * 8, 16, key=keys[1]),
            jax.nn.sigmoid,
            eqx.nn.Linear(16, 10, key=keys[2]),
            jax.nn.log_softmax,
        ]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def mnist(scale: int = 1) -> Any:
    """Returns a step of a convolutional net for images of digits, by AdamW.

    The structure follows Equinox's first example (Apache-2.0). Its max pool moves by one pixel, so
    that the windows overlap: https://docs.kidger.site/equinox/examples/mnist/
    """
    model = Net(jax.random.key(0))
    params, fixed = eqx.partition(model, eqx.is_array)
    images, labels = normal(0, 6 * scale, 1, 12, 12), integers(1, 10, 6 * scale)

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logs = jax.vmap(eqx.combine(params, fixed))(images)
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))

    return _trained(loss, optax.adamw(3e-4), params, images, labels)


PATCH, CLASSES = 4, 5


class VisionLayer(eqx.Module):
    """Attention and a hidden layer, each with a skip."""

    norms: list[eqx.nn.LayerNorm]
    attention: eqx.nn.MultiheadAttention
    hidden: eqx.nn.MLP
    dropout: eqx.nn.Dropout

    def __init__(self, key: Any) -> None:
        one, two = jax.random.split(key)
        self.norms = [eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)]
        self.attention = eqx.nn.MultiheadAttention(2, WIDTH, key=one)
        self.hidden = eqx.nn.MLP(WIDTH, WIDTH, 2 * WIDTH, 1, jax.nn.gelu, key=two)
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x: Any, key: Any) -> Any:
        normed = jax.vmap(self.norms[0])(x)
        x = x + self.attention(normed, normed, normed)
        return x + self.dropout(jax.vmap(self.hidden)(jax.vmap(self.norms[1])(x)), key=key)


class Vision(eqx.Module):
    """Patches become vectors; the first vector of the last layer gives the scores."""

    patches: eqx.nn.Linear
    token: jax.Array
    positions: jax.Array
    layers: list[VisionLayer]
    scores: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 6)
        self.patches = eqx.nn.Linear(3 * PATCH**2, WIDTH, key=keys[0])
        self.token = jax.random.normal(keys[1], (1, WIDTH))
        self.positions = jax.random.normal(keys[2], (20, WIDTH))
        self.layers = [VisionLayer(keys[3]), VisionLayer(keys[4])]
        self.scores = eqx.nn.Linear(WIDTH, CLASSES, key=keys[5])

    def __call__(self, image: Any, key: Any) -> Any:
        height, width = (size // PATCH for size in image.shape[1:])
        patches = image.reshape(3, height, PATCH, width, PATCH).transpose(1, 3, 0, 2, 4)
        x = jax.vmap(self.patches)(patches.reshape(height * width, -1))
        x = jnp.concatenate([self.token, x])
        x = x + self.positions[: x.shape[0]]
        for layer, part in zip(self.layers, jax.random.split(key, 2), strict=True):
            x = layer(x, part)
        return self.scores(x[0])


def vision(scale: int = 1) -> Any:
    """Returns a step of a vision transformer, by AdamW.

    The structure follows Equinox's example of the name (Apache-2.0). The class token and the
    positions are learned: https://docs.kidger.site/equinox/examples/vision_transformer/
    """
    params, fixed = eqx.partition(Vision(jax.random.key(0)), eqx.is_inexact_array)
    images, labels = normal(0, 3 * scale, 3, 12, 12), integers(1, CLASSES, 3 * scale)

    def loss(params: Any, images: Any, labels: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(images))
        scores = jax.vmap(eqx.combine(params, fixed))(images, keys)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    return _trained(loss, optax.adamw(1e-3), params, images, labels, jax.random.key(1))


NODES, GRAPHS, FEATURES = 24, 4, 3


class GraphLayer(eqx.Module):
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


class GraphNet(eqx.Module):
    """The layers, the mean of each graph, and a field along which that mean moves."""

    encode: eqx.nn.Linear
    layer: GraphLayer
    field: eqx.nn.MLP
    decode: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.encode = eqx.nn.Linear(FEATURES, WIDTH, key=keys[0])
        self.layer = GraphLayer(keys[1])
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


def graph_ode(scale: int = 1) -> Any:
    """Returns a step of a graph net, with an equation of Diffrax per graph, by Adam."""
    params, fixed = eqx.partition(GraphNet(jax.random.key(0)), eqx.is_inexact_array)
    features, targets = normal(0, NODES, FEATURES), normal(1, GRAPHS)
    senders, receivers = (integers(seed, NODES, 80 * scale) for seed in (2, 3))
    graph = jnp.repeat(jnp.arange(GRAPHS), NODES // GRAPHS)

    def loss(params: Any, senders: Any, receivers: Any) -> Any:
        model = eqx.combine(params, fixed)
        return jnp.mean((model(features, senders, receivers, graph) - targets) ** 2)

    return _trained(loss, optax.adam(1e-3), params, senders, receivers)
