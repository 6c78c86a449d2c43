"""The operations of scatters: their identities change no bit."""

import jax.numpy as jnp
import numpy as np
import pytest

from impl._families import reductions
from impl.tests.support.bits import assert_same_bits


@pytest.mark.parametrize("name", ["ADD", "MUL"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_the_identity_changes_no_bit(name, dtype):
    reduction = getattr(reductions, name)
    values = jnp.array([0, 1, 7], dtype)
    if dtype is np.float32:
        values = jnp.array([0.0, -0.0, 1.5, -np.inf], dtype)
    assert_same_bits(reduction.combine(reduction.full(values.shape, dtype), values), values)


@pytest.mark.parametrize("name", ["MIN", "MAX"])
def test_the_identity_of_an_extreme_is_the_limit_of_the_dtype(name):
    reduction = getattr(reductions, name)
    limits = jnp.array([np.iinfo(np.int32).min, 0, np.iinfo(np.int32).max], np.int32)
    assert_same_bits(reduction.combine(reduction.full((3,), np.int32), limits), limits)


def test_each_name_is_that_of_a_scatter_of_jax():
    for reduction in (reductions.ADD, reductions.MUL, reductions.MIN, reductions.MAX):
        result = getattr(jnp.array([3]).at[0], reduction.name)(2)
        assert result == reduction.combine(jnp.array([3]), jnp.array([2]))
