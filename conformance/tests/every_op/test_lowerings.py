"""The lowerings of a GPU under ``vmap`` and in ``shard_map``, for an op with the kernel of runs."""

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec

import impl
from conformance.tests.every_op.calls import named_calls
from conformance.tests.every_op.programs import plain
from conformance.tests.every_op.test_batches import EXAMPLES, stacked
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.programs import kernels

CALL = named_calls()["index_add"]


def assert_close(results, arrays):
    """Compares results with the stand-in's, up to rounding: a kernel's blocks hold other runs."""
    with LOWERINGS["stand-in"]():
        wanted, _ = plain(CALL)(*arrays)
    for got, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def mapped(mesh, check_vma):
    """Maps the op over a mesh of one device; the indices are constants."""

    def function(*floats):
        return CALL.outputs(*CALL.with_floats(floats))

    split = PartitionSpec("d")
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, check_vma=check_vma)
    )


@pytest.mark.stand_in
@pytest.mark.parametrize("lowering", ["xla", "seed 1"])
def test_vmap(lowering):
    # The indices are the same for all examples.
    axes = [None if array.dtype.kind == "i" else 0 for array in CALL.arrays]
    arguments = [
        stacked(array) if axis == 0 else array
        for array, axis in zip(CALL.arrays, axes, strict=True)
    ]
    with LOWERINGS[lowering]():
        results = jax.jit(jax.vmap(CALL.outputs, axes))(*arguments)
    for example in range(EXAMPLES):
        single = [
            x if axis is None else x[example] for x, axis in zip(arguments, axes, strict=True)
        ]
        assert_close([out[example] for out in results], single)


def test_interpreted_kernels_run_inside_shard_map():
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    # Pallas' interpreter does not support values that vary over a mesh.
    with impl.testing.emulate("cuda"):
        results = mapped(mesh, check_vma=False)(*CALL.floats)
    assert_close(results, CALL.arrays)


@pytest.mark.triton
@pytest.mark.parametrize("check_vma", [True, False])
def test_kernels_are_lowered_inside_shard_map(check_vma):
    gpu = impl.testing._mesh("NVIDIA H200").abstract_device
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,), abstract_device=gpu)
    with jax.sharding.use_abstract_mesh(mesh):
        lowered = mapped(mesh, check_vma).trace(*CALL.floats).lower(lowering_platforms=("cuda",))
    assert kernels(lowered) == {"scatter_add_runs"}
