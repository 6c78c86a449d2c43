"""A convolutional net of Flax Linen, with batch norm, overlapping max pools and dropout."""

from __future__ import annotations

from typing import Any

import jax
import optax
from flax import linen as nn

from conformance.programs._data import integers, normal, weights

OPTIMIZER = optax.sgd(0.05, momentum=0.9)


class Net(nn.Module):
    """Two blocks of a convolution, a batch norm and a pool; then a linear layer."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (4, 8):
            x = nn.Conv(features, (3, 3), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
            x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        x = nn.Dropout(0.2, deterministic=False)(x.mean((1, 2)))
        return nn.Dense(5)(x)


def build(scale: int = 1) -> Any:
    """Returns a step of training by momentum, and its arguments."""
    net, key = Net(), jax.random.key(0)
    images, labels = normal(0, 4 * scale, 12, 12, 3), integers(1, 5, 4 * scale)
    variables = weights(jax.eval_shape(net.init, {"params": key, "dropout": key}, images))

    def loss(params: Any, stats: Any, images: Any, labels: Any, key: Any) -> Any:
        logits, changed = net.apply(
            {"params": params, "batch_stats": stats},
            images,
            mutable=["batch_stats"],
            rngs={"dropout": key},
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), changed["batch_stats"]

    def step(params: Any, stats: Any, state: Any, images: Any, labels: Any, key: Any) -> Any:
        of_loss = jax.value_and_grad(loss, has_aux=True)
        (value, stats), gradients = of_loss(params, stats, images, labels, key)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return optax.apply_updates(params, updates), stats, state, value

    params = variables["params"]
    return step, (params, variables["batch_stats"], OPTIMIZER.init(params), images, labels, key)
