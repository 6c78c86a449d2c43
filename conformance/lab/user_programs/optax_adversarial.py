"""Training on images that an attack has changed, with lookahead.

The structure joins two of Optax's examples (Apache-2.0), ``adversarial_training`` and
``lookahead_mnist``: https://github.com/google-deepmind/optax/tree/main/examples
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from conformance.lab.user_programs._data import integers, normal, weights

OPTIMIZER = optax.lookahead(optax.adam(1e-3), sync_period=5, slow_step_size=0.5)


class Net(nn.Module):
    """Two convolutions with pools, and two linear layers."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (4, 6):
            x = nn.avg_pool(nn.relu(nn.Conv(features, (3, 3))(x)), (2, 2), strides=(2, 2))
        return nn.Dense(5)(nn.relu(nn.Dense(16)(x.reshape(len(x), -1))))


def build(scale: int = 1) -> Any:
    """Returns a step of training, and its arguments."""
    net = Net()
    images, labels = jax.nn.sigmoid(normal(0, 4 * scale, 12, 12, 1)), integers(1, 5, 4 * scale)

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logits = net.apply(params, images)
        decay = sum(jnp.sum(p**2) for p in jax.tree.leaves(params) if p.ndim > 1)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean() + 1e-4 * decay

    def attacked(params: Any, images: Any, labels: Any) -> Any:
        """Returns images that projected gradient ascent has moved by at most a tenth."""

        def move(_: Any, change: Any) -> Any:
            slope = jax.grad(loss, argnums=1)(params, images + change, labels)
            change = jnp.clip(change + 0.03 * jnp.sign(slope), -0.1, 0.1)
            return jnp.clip(images + change, 0, 1) - images

        return images + jax.lax.fori_loop(0, 3, move, jnp.zeros_like(images))

    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        changed = jax.lax.stop_gradient(attacked(params.fast, images, labels))
        value, gradients = jax.value_and_grad(loss)(params.fast, changed, labels)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    params = weights(jax.eval_shape(net.init, jax.random.key(0), images))
    params = optax.LookaheadParams.init_synced(params)
    return step, (params, OPTIMIZER.init(params), images, labels)
