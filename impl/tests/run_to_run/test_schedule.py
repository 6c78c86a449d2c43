"""Schedules of plain programs: a seed permutes the updates of scatters and the taps of pools."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl

SIZES = (1.0, 1e8, -1e8, 3.0, 1e-3, 7.0)


def scatter(x):
    return x.at[jnp.array([0, 0, 0, 0, 1, 1])].add(jnp.array(SIZES))


def assign(x):
    return x.at[jnp.array([[0], [0], [0], [1]])].set(jnp.arange(4.0)[:, None])


def pool(x):
    w = jnp.array(SIZES[:4])
    x = x.at[3].set(5.0)
    return jax.grad(
        lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (4,), (1,), "VALID") * w).sum()
    )(x)


@pytest.mark.parametrize("function", [scatter, assign, pool])
@pytest.mark.parametrize("mode", [False, True])
def test_bits_change_with_the_schedule_unless_the_mode_is_on(function, mode):
    x = jnp.zeros(7)
    plain = jax.jit(function)(x).tobytes() if mode is False else None
    seed = impl.testing.Seed()
    jitted = jax.jit(functools.partial(function))
    seen = []
    with impl.deterministic(mode), impl.testing.emulate("cuda", lowering="xla", seed=seed):
        for seed.value in range(6):
            seen.append(np.asarray(jitted(x)).tobytes())
        assert jitted._cache_size() == 1
    assert (len(set(seen)) > 1) is not mode
    if not mode and function is not pool:
        assert seen[0] == np.frombuffer(plain, np.float32).tobytes()


def test_an_int_is_a_schedule_too():
    x = jnp.zeros(2)
    seen = set()
    for seed in range(4):
        with impl.testing.schedule(seed):
            seen.add(np.asarray(jax.jit(scatter)(x)).tobytes())
    assert len(seen) > 1
