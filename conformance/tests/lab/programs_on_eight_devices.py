"""A program of a user on one device and on eight; ``test_engines`` runs it."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
from conformance import programs


def shared(leaf, devices):
    """Returns a leaf on some devices. Its rows are cut if their number divides evenly by all."""
    shape = np.shape(leaf)
    cut = bool(shape) and shape[0] % jax.device_count() == 0
    mesh = Mesh(np.array(devices), ("data",))
    return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*["data"] * cut)))


def test_one_device_and_eight_give_the_same_bits_by_one_line():
    # The tests of docs have a transformer on eight devices and a policy on four.
    pytest.importorskip("optax", reason="`nox -s tests-3.11` has the libraries of programs")
    impl.use_deterministic_algorithms(True, guarantee="portable")
    step, args = programs.build("flax_augmented")
    compiled, digests = jax.jit(step), []
    for devices in (jax.devices()[:1], jax.devices()):
        arrays = jax.tree.map(lambda leaf, among=devices: shared(leaf, among), args)
        digests.append(impl.digest(compiled(*arrays)))
    assert len(jax.devices()) == 8
    assert digests[0] == digests[1]
