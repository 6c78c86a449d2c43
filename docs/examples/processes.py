"""Trains a classifier on the devices of one process or of several, and prints a digest.

With the guarantee ``portable`` the digest is the same for any number of processes:

    python docs/examples/processes.py
    python docs/examples/processes.py 0 2 & python docs/examples/processes.py 1 2

The arguments are the number of this process, and the number of all processes. The processes meet on
this machine, at port 12321 or the port in the environment variable PORT.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl

BATCH, ROWS, WIDTH, CLASSES = 16, 96, 8, 4


def join(number: int, count: int) -> None:
    """Joins this process with the other processes, before JAX is used."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ.get('PORT', '12321')}", count, number)


def batches(rows: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yields this process's part of each batch of an epoch. All processes draw one order."""
    order = impl.utils.data.RandomSampler(rows, generator=impl.Generator().manual_seed(0))
    part = BATCH // jax.process_count()
    start = part * jax.process_index()
    for batch in impl.utils.data.BatchSampler(order, BATCH, drop_last=True):
        yield rows[batch[start : start + part]]


def loss(weights: jax.Array, rows: jax.Array) -> jax.Array:
    """Returns the loss of a linear classifier, whose target is the last column of the rows."""
    logits = jnp.tanh(rows[:, :-1]) @ weights
    return impl.nn.functional.cross_entropy(logits, rows[:, -1].astype(int))


@jax.jit
def step(weights: jax.Array, rows: jax.Array) -> jax.Array:
    """Returns the weights after a step."""
    gradient: jax.Array = jax.grad(loss)(weights, rows)
    return weights - 0.1 * gradient


def main() -> None:
    """Trains an epoch."""
    if sys.argv[1:]:
        join(*map(int, sys.argv[1:]))
    impl.use_deterministic_algorithms(True, guarantee="portable")
    impl.testing.assert_processes_agree()
    drawn = np.random.default_rng(0)
    rows = drawn.normal(size=(ROWS, WIDTH + 1)).astype(np.float32)
    rows[:, -1] = drawn.integers(0, CLASSES, ROWS)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    cut = NamedSharding(mesh, P("data"))
    weights = jax.device_put(np.zeros((WIDTH, CLASSES), np.float32), NamedSharding(mesh, P()))
    for part in batches(rows):
        weights = step(weights, jax.make_array_from_process_local_data(cut, part))
    digest = hashlib.sha256(np.asarray(weights).tobytes()).hexdigest()[:16]
    print(f"{jax.process_count()} processes, {jax.device_count()} devices: {digest}")


if __name__ == "__main__":
    main()
