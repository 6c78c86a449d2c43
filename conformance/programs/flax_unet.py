"""A U-Net of Flax Linen: pools of both kinds, transposed convolutions and resizes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from conformance.programs._data import integers, normal, weights

OPTIMIZER = optax.adamw(1e-3)


class Block(nn.Module):
    """A convolution with group norm."""

    features: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.relu(nn.GroupNorm(num_groups=2)(nn.Conv(self.features, (3, 3))(x)))


class UNet(nn.Module):
    """Three scales on the left, and two on the right, which also see the left outputs."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        fine = Block(4)(x)
        middle = Block(6)(nn.max_pool(fine, (2, 2), (2, 2)))
        coarse = Block(8)(nn.max_pool(middle, (3, 3), (2, 2), padding="SAME"))
        up = jax.image.resize(coarse, (*middle.shape[:3], 8), "bilinear")
        up = Block(6)(jnp.concatenate([up, middle], -1))
        up = nn.ConvTranspose(4, (2, 2), (2, 2))(up)
        up = Block(4)(jnp.concatenate([up, fine], -1))
        small = nn.avg_pool(up, (2, 2), (2, 2))
        return nn.Conv(3, (1, 1))(up + jax.image.resize(small, up.shape, "nearest"))


def build(scale: int = 1) -> Any:
    """Returns a step of training by AdamW, and its arguments."""
    net = UNet()
    images, labels = normal(0, 12 * scale, 12, 12, 3), integers(1, 3, 12 * scale, 12, 12)
    params = weights(jax.eval_shape(net.init, jax.random.key(0), images))

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logits = net.apply(params, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, images, labels)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), images, labels)
