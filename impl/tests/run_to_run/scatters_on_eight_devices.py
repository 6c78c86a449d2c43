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
#: The sharding of the operand, of the indices, and of the updates.
SHARDED = {
    "updates": ((), ("d",), ("d",)),
    "columns": ((None, "d"), (), (None, "d")),
    "rows": (("d",), (), ()),
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


@pytest.mark.parametrize("devices", [2, 8])
def test_runs_are_equal(devices):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
    for name, shardings in SHARDED.items():
        arrays = [
            jax.device_put(array, NamedSharding(mesh, PartitionSpec(*axes)))
            for array, axes in zip((X, INDEX, SOURCE), shardings, strict=True)
        ]
        with impl.deterministic():
            jitted = jax.jit(program)
            runs = [jax.device_get(jitted(*arrays)) for _ in range(RUNS)]
        for run in runs[1:]:
            for one, other in zip(run, runs[0], strict=True):
                assert one.tobytes() == other.tobytes(), name


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
