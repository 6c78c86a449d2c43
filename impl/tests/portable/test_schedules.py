"""The exact atomics of a portable program give the same bits in each of 21 orders of updates.

Tests: impl._run_to_run.ordered.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import impl
from impl._exact.sums import scatter

ORDERS = 21


def gradient(table, index, weights):
    """Adds rows where indices repeat, as the gradient of an embedding does."""
    return jax.grad(lambda table: (table[index] * weights).sum())(table)


def by_schedule(**mode):
    """Returns the bits on this device, and the different ones under the schedules of a mode."""
    rng = np.random.default_rng(0)
    index = jnp.asarray(rng.integers(0, 3, 60))
    weights = np.float32(rng.normal(size=(60, 2)) * 2.0 ** rng.integers(-20, 20, (60, 2)))
    # They cancel, so that errors of float64 are not small in the result.
    weights[:20:2], weights[1:20:2] = 2.0**60, -(2.0**60)
    operands = jnp.zeros((3, 2)), index, jnp.asarray(weights)
    seed, results = impl.testing.Seed(), set()
    with impl.deterministic(**mode):
        program = jax.jit(functools.partial(gradient))
        on_device = np.asarray(program(*operands)).tobytes()
        with impl.testing.emulate("cuda", lowering="xla", seed=seed):
            for seed.value in range(ORDERS):
                results.add(np.asarray(program(*operands)).tobytes())
    return on_device, results


def test_exact_atomics_have_one_result_in_every_order_of_their_updates():
    on_device, results = by_schedule(guarantee="portable")
    assert results == {on_device}


def test_schedules_reach_the_atomics_of_a_portable_program(monkeypatch):
    _, results = by_schedule(mode=False)
    assert len(results) > 1

    def rounding(operand, indices, updates, *, dimension_numbers, **_):
        """Adds terms that are not whole numbers, whose sums are rounded."""
        wide = (lax.convert_element_type(each, np.float64) for each in (operand, updates))
        first, second = wide
        sums = lax.scatter_add(first, indices, second, dimension_numbers)
        return lax.convert_element_type(sums, operand.dtype)

    monkeypatch.setattr(scatter, "scatter_add", rounding)
    _, results = by_schedule(guarantee="portable")
    assert len(results) > 1
