"""Under ``portable`` every op gives the exact result on eight devices, for each example of a batch.

The oracles compute with integers. With one of its axes sharded over the devices, a call of each
row, direction and dtype runs by HLO alone, and as a batch by the default engine.
"""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
from conformance import bits
from conformance.adapters import base
from conformance.suite.cells import cells, portable_cells
from impl.tests.support.programs import equations

DEVICES = 8
ADAPTER = base.load("impl")


def sharded(array, first_axis):
    """Returns the array with an axis over the devices: the first one that they divide."""
    mesh = Mesh(np.array(jax.devices()), ("d",))
    axes = [*range(first_axis, array.ndim), *range(first_axis)]
    chosen = next((k for k in axes if array.shape[k] and array.shape[k] % DEVICES == 0), None)
    names = ["d" if axis == chosen else None for axis in range(array.ndim)]
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*names)))


def by_primitives():
    """Yields the cells; those that add no primitive have the mark ``once``.

    ``test_bits`` asks the oracles about all of them on each release of JAX, on one device.
    """
    known = set()
    for cell in portable_cells(cells(), ["cpu"]):
        closed = jax.make_jaxpr(cell.sample.function(ADAPTER, cell.direction))(*cell.inputs)
        names = {equation.primitive.name for equation in equations(closed)}
        yield pytest.param(cell, id=str(cell), marks=[] if names - known else pytest.mark.once)
        known |= names


@pytest.mark.parametrize("cell", list(by_primitives()))
def test_an_op_that_adds_is_exact(cell):
    function = cell.sample.function(ADAPTER, cell.direction)
    oracle = cell.sample.oracle(cell.direction)
    batches = [np.stack([np.zeros_like(array), array]) for array in cell.inputs]
    with impl.deterministic(profile=cell.profile, guarantee="portable"):
        with impl.testing.engine("float64"):
            alone = jax.jit(function)(*[sharded(array, 0) for array in cell.inputs])
        batch = jax.jit(jax.vmap(function))(*[sharded(array, 1) for array in batches])
    want = bits.digest(oracle(*cell.inputs))
    assert bits.digest(jax.tree.map(np.asarray, alone)) == want
    assert bits.digest(jax.tree.map(lambda out: np.asarray(out[1]), batch)) == want
