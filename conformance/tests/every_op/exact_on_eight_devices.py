"""Under ``portable`` every op gives the exact result on eight devices, for each example of a batch.

The oracles compute with integers. With one of its axes sharded over as many devices as divide it, a
call of each row, direction and dtype runs by HLO alone, and as a batch by the default engine.
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

ADAPTER = base.load("impl")


def sharded(arrays, first_axis):
    """Returns the arrays, of which some are cut over as many devices as divide an axis."""
    sizes = {size for array in arrays for size in array.shape[first_axis:]}
    count = max((n for n in range(1, 9) for size in sizes if size and size % n == 0), default=1)
    mesh = Mesh(np.array(jax.devices()[:count]), ("d",))
    cut = []
    for array in arrays:
        axes = range(first_axis, array.ndim)
        chosen = next((k for k in axes if array.shape[k] and array.shape[k] % count == 0), None)
        names = ["d" if axis == chosen else None for axis in range(array.ndim)]
        cut.append(jax.device_put(array, NamedSharding(mesh, PartitionSpec(*names))))
    return cut


def by_primitives():
    """Yields the cells; those that add no primitive have the mark ``once``.

    ``test_bits`` asks the oracles about all of them on one device.
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
            alone = jax.jit(function)(*sharded(cell.inputs, 0))
        batch = jax.jit(jax.vmap(function))(*sharded(batches, 1))
    want = bits.digest(oracle(*cell.inputs))
    assert bits.digest(jax.tree.map(np.asarray, alone)) == want
    assert bits.digest(jax.tree.map(lambda out: np.asarray(out[1]), batch)) == want
