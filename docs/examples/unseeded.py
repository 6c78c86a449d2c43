"""A program with three faults, which the doctor names."""

import time

import jax
import jax.numpy as jnp
import numpy as np

import impl

impl.use_deterministic_algorithms(True, profile="complete")
impl.seed_everything(0)

rng = np.random.default_rng()
key = jax.random.key(time.time_ns() % 1000)
x = rng.normal(size=9) + jax.random.normal(key, (9,))


def histogram(values: jax.Array, bins: jax.Array) -> jax.Array:
    return jnp.zeros(4).at[bins].add(values)


with impl.deterministic(False):
    jax.jit(histogram)(x, jnp.zeros(9, int))
