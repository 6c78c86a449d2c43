"""Engines give the same bits over one and over several devices; ``test_ops`` runs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl import testing


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(autouse=True)
def portable():
    with impl.deterministic(guarantee="portable"):
        yield


def mesh(count):
    return Mesh(np.array(jax.devices()[:count]), ("d",))


def drawn(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), np.float32)


def test_arrays_that_xla_partitions(rng):
    x, w = drawn(rng, 16, 16), drawn(rng, 16, 24)
    at = jnp.asarray(rng.integers(0, 16, 24), np.int32)

    def function(x, w, at):
        scores = (x * 1.25) @ w
        return scores, jnp.sum(scores, 0), jnp.zeros(16).at[at].add(scores[0])

    expected = jax.jit(function)(x, w, at)
    axes = (P(None, "d"), P("d"), P("d"))
    sharded = [
        jax.device_put(value, NamedSharding(mesh(8), axis))
        for value, axis in zip((x, w, at), axes, strict=True)
    ]
    with testing.engine("integers"):
        found = jax.jit(function)(*sharded)
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.once
def test_sums_over_the_devices_of_a_shard_map(rng):
    x, w = drawn(rng, 8, 6), drawn(rng, 6, 4)

    def local(x, w):
        total = lax.psum(jnp.tanh(x @ w).sum(0), "d")
        part = lax.psum_scatter(jnp.exp(x).T @ x, "d", scatter_dimension=0, tiled=True)
        return total, lax.all_gather(part, "d", tiled=True)

    def over_devices(count):
        return jax.shard_map(
            local, mesh=mesh(count), in_specs=(P("d"), P()), out_specs=(P(), P("d"))
        )

    total, parts = jax.jit(over_devices(2))(x, w)
    with testing.engine("integers"):
        soft_total, soft_parts = jax.jit(over_devices(2))(x, w)
    assert np.array_equal(total, soft_total)
    assert np.array_equal(parts, soft_parts)
