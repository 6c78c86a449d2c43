"""Prints the digests of what programs compute on one device and on all, with one added line.

The arguments of this script are a guarantee, or ``off``, and names of programs.
"""

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
from conformance import programs


def shared(leaf, devices):
    """Returns a leaf on some devices. Its rows are cut if their number divides evenly by all."""
    shape = np.shape(leaf)
    cut = bool(shape) and shape[0] % jax.device_count() == 0
    mesh = Mesh(np.array(devices), ("data",))
    return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*["data"] * cut)))


def main(guarantee, *names):
    if guarantee != "off":
        impl.use_deterministic_algorithms(True, guarantee=guarantee)
    for name in names:
        step, args = programs.build(name)
        compiled = jax.jit(step)
        for devices in (jax.devices()[:1], jax.devices()):
            arrays = jax.tree.map(lambda leaf, among=devices: shared(leaf, among), args)
            print(name, len(devices), impl.digest(compiled(*arrays)))


if __name__ == "__main__":
    main(*sys.argv[1:])
