"""Proximal policy optimization of a pole on a cart, which logs a spectrum and singular values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

STEPS, PARTS, EPOCHS = 16, 2, 2
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(2.5e-3, eps=1e-5))


def started(key: Any) -> Any:
    return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)


def moved(cart: Any, push: Any, key: Any) -> Any:
    """Returns the next state of a cart, its reward, and whether it starts anew."""
    _, speed, angle, turn = cart
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    force = (jnp.where(push == 1, 10.0, -10.0) + 0.05 * turn**2 * sine) / 1.1
    turning = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    moving = force - 0.05 * turning * cosine / 1.1
    change = jnp.array([speed, moving, turn, turning])
    new = cart + 0.02 * change
    fell = (jnp.abs(new[0]) > 2.4) | (jnp.abs(new[2]) > 0.21)
    return jnp.where(fell, started(key), new), 1.0, fell


class Net(nn.Module):
    """The logits of the two pushes, and the value of a state."""

    @nn.compact
    def __call__(self, carts: Any) -> Any:
        hidden = carts
        for _ in range(2):
            hidden = nn.tanh(nn.Dense(8, kernel_init=nn.initializers.orthogonal(2**0.5))(hidden))
        return nn.Dense(2)(hidden), nn.Dense(1)(hidden)[..., 0]


NET = Net()


def played(params: Any, carts: Any, key: Any) -> Any:
    """Returns the carts after some steps, and the observation, action and estimate of each step."""

    def one(carts: Any, key: Any) -> Any:
        draw, anew = jax.random.split(key)
        logits, value = NET.apply(params, carts)
        push = jax.random.categorical(draw, logits)
        log = jnp.take_along_axis(jax.nn.log_softmax(logits), push[:, None], 1)[:, 0]
        new, reward, fell = jax.vmap(moved)(carts, push, jax.random.split(anew, len(carts)))
        return new, (carts, push, log, value, jnp.broadcast_to(reward, value.shape), fell)

    return jax.lax.scan(one, carts, jax.random.split(key, STEPS))


def advantages(last: Any, values: Any, rewards: Any, fell: Any) -> Any:
    """Returns generalized advantage estimates, from the last step to the first."""

    def one(carry: Any, step: Any) -> Any:
        advantage, following = carry
        value, reward, over = step
        goes_on = 1.0 - over
        advantage = reward + 0.99 * following * goes_on - value + 0.94 * goes_on * advantage
        return (advantage, value), advantage

    start = (jnp.zeros_like(last), last)
    return jax.lax.scan(one, start, (values, rewards, fell), reverse=True, unroll=4)[1]


def loss(params: Any, part: Any) -> Any:
    """Returns the sum of the clipped loss of the policy, the loss of the value, and the entropy."""
    carts, push, old, advantage, target = part
    logits, value = NET.apply(params, carts)
    logs = jax.nn.log_softmax(logits)
    ratio = jnp.exp(jnp.take_along_axis(logs, push[:, None], 1)[:, 0] - old)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage).mean()
    entropy = -(jnp.exp(logs) * logs).sum(-1).mean()
    return 0.5 * ((value - target) ** 2).mean() - gain - 0.01 * entropy


def ppo(scale: int = 1) -> Any:
    """Returns an update of the policy with metrics, and its arguments."""
    carts = jax.vmap(started)(jax.random.split(jax.random.key(5), 8 * scale))
    params = NET.init(jax.random.key(0), carts)

    def step(params: Any, state: Any, carts: Any, key: Any) -> Any:
        play, shuffle = jax.random.split(key)
        carts, (seen, push, logs, values, rewards, fell) = played(params, carts, play)
        advantage = advantages(NET.apply(params, carts)[1], values, rewards, fell)
        steps = (seen, push, logs, advantage, advantage + values)
        data = jax.tree.map(lambda each: each.reshape(-1, *each.shape[2:]), steps)

        def learned(carry: Any, part: Any) -> Any:
            params, state = carry
            value, gradients = jax.value_and_grad(loss)(params, part)
            updates, state = OPTIMIZER.update(gradients, state, params)
            return (optax.apply_updates(params, updates), state), value

        def epoch(carry: Any, key: Any) -> Any:
            order = jax.random.permutation(key, len(data[0]))
            parts = jax.tree.map(lambda x: x[order].reshape(PARTS, -1, *x.shape[1:]), data)
            return jax.lax.scan(learned, carry, parts)

        carry, losses = jax.lax.scan(epoch, (params, state), jax.random.split(shuffle, EPOCHS))
        metrics = {
            "loss": losses.mean(),
            "spectrum": jnp.abs(jnp.fft.rfft(rewards - values, axis=0)).mean(1),
            "ranks": jnp.linalg.svd(params["params"]["Dense_1"]["kernel"], compute_uv=False),
        }
        return (*carry, carts, metrics)

    return step, (params, OPTIMIZER.init(params), carts, jax.random.key(1))
