"""Types of values inside ``shard_map``."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from impl._core import shard_axes


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


def test_outside_nothing_varies():
    value = jnp.zeros(3)
    assert shard_axes.varying(value, value) == set()
    assert shard_axes.vary_like(value, value) is value
