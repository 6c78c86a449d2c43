"""Prints the digest of what programs compute on all devices of JAX, with one added line.

The arguments of this script are a guarantee, or ``off``, and names of programs.
"""

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
from conformance import programs


def shared(leaf):
    """A leaf over all devices, whose rows are cut where eight devices have as many."""
    shape = np.shape(leaf)
    cut = bool(shape) and shape[0] % 8 == 0
    mesh = Mesh(np.array(jax.devices()), ("data",))
    return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*["data"] * cut)))


def main(guarantee, *names):
    if guarantee != "off":
        impl.use_deterministic_algorithms(True, guarantee=guarantee)
    for name in names:
        step, args = programs.build(name)
        print(name, impl.digest(jax.jit(step)(*jax.tree.map(shared, args))))


if __name__ == "__main__":
    main(*sys.argv[1:])
