"""A vision transformer of Equinox.

The structure follows Equinox's example of the name (Apache-2.0). The class token and the
positions are learned: https://docs.kidger.site/equinox/examples/vision_transformer/
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from conformance.programs._data import integers, normal

OPTIMIZER = optax.adamw(1e-3)
PATCH, WIDTH, CLASSES = 4, 8, 5


class Layer(eqx.Module):
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


class Model(eqx.Module):
    """Patches become vectors; the first vector of the last layer gives the scores."""

    patches: eqx.nn.Linear
    token: jax.Array
    positions: jax.Array
    layers: list[Layer]
    scores: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 6)
        self.patches = eqx.nn.Linear(3 * PATCH**2, WIDTH, key=keys[0])
        self.token = jax.random.normal(keys[1], (1, WIDTH))
        self.positions = jax.random.normal(keys[2], (20, WIDTH))
        self.layers = [Layer(keys[3]), Layer(keys[4])]
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


def build(scale: int = 1) -> Any:
    """Returns a step of training by AdamW, and its arguments."""
    params, fixed = eqx.partition(Model(jax.random.key(0)), eqx.is_inexact_array)
    images, labels = normal(0, 3 * scale, 3, 12, 12), integers(1, CLASSES, 3 * scale)

    def loss(params: Any, images: Any, labels: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(images))
        scores = jax.vmap(eqx.combine(params, fixed))(images, keys)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    def step(params: Any, state: Any, images: Any, labels: Any, key: Any) -> Any:
        value, gradients = eqx.filter_value_and_grad(loss)(params, images, labels, key)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return eqx.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), images, labels, jax.random.key(1))
