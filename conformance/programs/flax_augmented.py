"""A convolutional net of Flax Linen over augmented images: flips, shifts and brightness."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from conformance.programs._data import integers, normal, weights

SIZE = 8
OPTIMIZER = optax.sgd(0.05, momentum=0.9, nesterov=True)


class Net(nn.Module):
    """Two convolutions with batch norm and max pool, dropout, and a linear layer."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (4, 8):
            x = nn.Conv(features, (3, 3), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.Dropout(0.2, deterministic=False)(x.reshape(len(x), -1))
        return nn.Dense(5)(x)


def augmented(key: Any, images: Any) -> Any:
    """Returns each image, perhaps mirrored, moved by up to two pixels, and brighter or darker."""
    mirror, move, light = jax.random.split(key, 3)
    count = len(images)
    mirrored = jax.random.bernoulli(mirror, 0.5, (count, 1, 1, 1))
    images = jnp.where(mirrored, images[:, :, ::-1], images)
    padded = jnp.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    corners = jax.random.randint(move, (count, 2), 0, 5)

    def window(image: Any, corner: Any) -> Any:
        return jax.lax.dynamic_slice(image, (*corner, 0), (SIZE, SIZE, 3))

    lights = jax.random.uniform(light, (count, 1, 1, 1), minval=0.8, maxval=1.2)
    return jax.vmap(window)(padded, corners) * lights


def build(scale: int = 1) -> Any:
    """Returns a step of training by Nesterov's momentum, and its arguments."""
    net, key = Net(), jax.random.key(0)
    images, labels = normal(0, 8 * scale, SIZE, SIZE, 3), integers(1, 5, 8 * scale)
    variables = weights(jax.eval_shape(net.init, {"params": key, "dropout": key}, images))
    params = variables["params"]
    state = {
        "params": params,
        "stats": variables["batch_stats"],
        "optimizer": OPTIMIZER.init(params),
        "step": jnp.int32(0),
    }

    def step(state: Any, images: Any, labels: Any) -> Any:
        own = jax.random.fold_in(jax.random.key(1), state["step"])
        augment, drop = jax.random.split(own)
        images = augmented(augment, images)

        def loss(params: Any) -> Any:
            both = {"params": params, "batch_stats": state["stats"]}
            logits, new = net.apply(both, images, rngs={"dropout": drop}, mutable=["batch_stats"])
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return losses.mean(), new["batch_stats"]

        (value, stats), gradients = jax.value_and_grad(loss, has_aux=True)(state["params"])
        updates, moments = OPTIMIZER.update(gradients, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        count = state["step"] + 1
        return {"params": params, "stats": stats, "optimizer": moments, "step": count}, value

    return step, (state, images, labels)
