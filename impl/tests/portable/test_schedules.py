"""The exact atomics of a portable program give the same bits in each of 21 orders of updates."""

import jax
import jax.numpy as jnp
import numpy as np

import impl

ORDERS = 21


def gradient(table, index, weights):
    """Adds rows where indices repeat, as the gradient of an embedding does."""
    return jax.grad(lambda table: (table[index] * weights).sum())(table)


def test_exact_atomics_have_one_result_in_every_order_of_their_updates():
    rng = np.random.default_rng(0)
    index = jnp.asarray(rng.integers(0, 3, 60))
    weights = np.float32(rng.normal(size=(60, 2)) * 2.0 ** rng.integers(-20, 20, (60, 2)))
    # They cancel, so that what float64 rounds beside them is not small in the result.
    weights[:20:2], weights[1:20:2] = 2.0**60, -(2.0**60)
    seed = impl.testing.Seed()
    table, weights = jnp.zeros((3, 2)), jnp.asarray(weights)
    different = {}
    for mode in (False, True):
        with impl.deterministic(mode, guarantee="portable" if mode else None):
            program = jax.jit(gradient)
            on_device = np.asarray(program(table, index, weights)).tobytes()
            with impl.testing.emulate("cuda", lowering="xla", seed=seed):
                results = set()
                for seed.value in range(ORDERS):
                    results.add(np.asarray(program(table, index, weights)).tobytes())
            different[mode] = results
    assert len(different[False]) > 1
    assert different[True] == {on_device}
