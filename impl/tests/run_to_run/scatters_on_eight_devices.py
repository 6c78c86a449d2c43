"""JAX's own scatters on a CPU, with arrays that several devices share: equal bits in each run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl

ROWS, WIDTH, UPDATES, RUNS = 16, 8, 20_000, 10
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
SOURCE = (RNG.normal(size=(UPDATES, WIDTH)) * 10.0 ** RNG.integers(-6, 7, (UPDATES, 1))).astype(
    "f4"
)
INDEX = RNG.integers(0, ROWS, UPDATES, np.int32)
#: The number of devices, and the sharding of the operand, of the indices, and of the updates.
SHARDED = {
    "updates": (8, (), ("d",), ("d",)),
    "columns": (2, (None, "d"), (), (None, "d")),
    "rows": (8, ("d",), (), ()),
}


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (2, 2), "SAME")


def program(x, index, source):
    pooled, pullback = jax.vjp(pool, x)
    near = 1 + source * np.float32(1e-9)
    return (
        x.at[index].add(source),
        x.at[index].subtract(source),
        x.at[index].multiply(near),
        x.at[index].set(source),
        *pullback(pooled),
    )


@pytest.mark.parametrize("sharded", SHARDED)
def test_runs_are_equal(sharded):
    devices, *shardings = SHARDED[sharded]
    mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
    arrays = [
        jax.device_put(array, NamedSharding(mesh, PartitionSpec(*axes)))
        for array, axes in zip((X, INDEX, SOURCE), shardings, strict=True)
    ]
    with impl.deterministic():
        jitted = jax.jit(program)
        first, *runs = (jax.device_get(jitted(*arrays)) for _ in range(RUNS))
    for run in runs:
        assert [each.tobytes() for each in run] == [each.tobytes() for each in first]


def test_one_device_takes_the_updates_in_the_order_of_the_source():
    with impl.deterministic():
        added, subtracted, _, assigned, _ = jax.device_get(jax.jit(program)(X, INDEX, SOURCE))
    wanted = X.copy()
    np.add.at(wanted, INDEX, SOURCE)
    assert added.tobytes() == wanted.tobytes()
    wanted = X.copy()
    np.subtract.at(wanted, INDEX, SOURCE)
    assert subtracted.tobytes() == wanted.tobytes()
    last = {row: position for position, row in enumerate(INDEX.tolist())}
    for row, position in last.items():
        assert assigned[row].tobytes() == SOURCE[position].tobytes()
