"""A convolutional net of Equinox for images of digits.

The structure follows Equinox's first example (Apache-2.0). Its max pool moves by one pixel, so
that the windows overlap: https://docs.kidger.site/equinox/examples/mnist/
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from conformance.programs._data import integers, normal

OPTIMIZER = optax.adamw(3e-4)


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


def build(scale: int = 1) -> Any:
    """Returns a step of training by AdamW, and its arguments."""
    model = Net(jax.random.key(0))
    params, fixed = eqx.partition(model, eqx.is_array)
    images, labels = normal(0, 6 * scale, 1, 12, 12), integers(1, 10, 6 * scale)

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logs = jax.vmap(eqx.combine(params, fixed))(images)
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))

    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        value, gradients = eqx.filter_value_and_grad(loss)(params, images, labels)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return eqx.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), images, labels)
