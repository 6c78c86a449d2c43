"""Axes of the core primitives and of shard_map, indices, and elements between elements.

Tests: impl._core.shard_axes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from impl._core import axes, shard_axes
from impl._jax import shardings


def test_a_narrow_index_becomes_wide_before_it_is_replaced():
    index = jnp.array([-1, 0, 44, 127], jnp.int8)
    assert axes.within(index, 300).tolist() == [300, 0, 44, 127]


def test_a_wide_index_is_replaced_before_it_is_narrowed():
    with jax.enable_x64(True):
        narrow = axes.within(jnp.array([2**32 + 1, 1]), 3)
    assert (narrow.dtype, narrow.tolist()) == (np.int32, [3, 1])


def test_a_negative_index_counts_from_the_end():
    assert axes.wrapped(jnp.array([-1, -3, -4, 2], jnp.int8), 3).tolist() == [2, 0, -1, 2]
    assert axes.wrapped(jnp.array([-1], jnp.int8), 1000).tolist() == [999]


@pytest.mark.parametrize("edges", [(0, 0), (1, 2), (-1, 3), (2, -4), (-2, -1)], ids=str)
def test_it_is_the_padding_of_jax(edges):
    x = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    found = axes.spread(x, np.float32(7), [(0, 1), edges], [2, 3])
    expected = jax.lax.pad(x, np.float32(7), [(0, 1, 1), (*edges, 2)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("batch", "axis"), [(0, 1), (1, 0)])
def test_a_batch_may_be_sharded(batch, axis):
    rows = jax.vmap(lambda row: shardings.whole(row, (0,)), batch, batch)
    (equation,) = jax.make_jaxpr(rows)(np.ones((2, 3))).eqns
    assert equation.params["axes"] == (axis,)


def test_values_are_brought_to_the_axes_of_others():
    def function(x):
        constant = jnp.zeros(3)
        assert shard_axes.varying(constant) == set()
        assert shard_axes.varying(constant, x) == {"x"}
        assert shard_axes.varying(shard_axes.vary_like(constant, x)) == {"x"}
        assert shard_axes.vary(x, frozenset("x")) is x
        assert {shard_axes.varying(value) for value in shard_axes.aligned(constant, x)} == {
            frozenset("x")
        }
        return x

    mesh, spec = Mesh(np.array(jax.devices()[:1]), ("x",)), PartitionSpec("x")
    jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)(jnp.zeros(3))
