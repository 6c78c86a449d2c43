"""The lowerings of other devices under ``vmap`` and in ``shard_map``, for an op of each kernel."""

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

#: An op with the kernel of sorted runs.
each_kernel = pytest.mark.parametrize("op", ["index_add"])


def assert_close(results, wanted):
    """Compares results up to rounding: a kernel sums blocks that also hold other runs."""
    for got, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def mapped(call, mesh, check_vma):
    """Maps the op over a mesh of one device; the indices are constants."""

    def function(*floats):
        return call.outputs(*call.with_floats(floats))

    split = PartitionSpec("d")
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, check_vma=check_vma)
    )


@pytest.mark.stand_in
@pytest.mark.parametrize("lowering", ["xla", "seed 1"])
@each_kernel
def test_vmap(op, lowering):
    call = named_calls()[op]
    batches = [stacked(array) for array in call.arrays]
    # The indices, where there are any, are the same for all examples.
    axes = [None if array.dtype.kind == "i" else 0 for array in call.arrays]
    arguments = [
        batch[0] if axis is None else batch for batch, axis in zip(batches, axes, strict=True)
    ]
    with LOWERINGS[lowering]():
        results = jax.jit(jax.vmap(call.outputs, axes))(*arguments)
    for example in range(EXAMPLES):
        single = [
            argument if axis is None else argument[example]
            for argument, axis in zip(arguments, axes, strict=True)
        ]
        with LOWERINGS["stand-in"]():
            want, _ = plain(call)(*single)
        assert_close([out[example] for out in results], want)


@each_kernel
def test_interpreted_kernels_run_inside_shard_map(op):
    call = named_calls()[op]
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    # Pallas' interpreter does not support values that vary over a mesh.
    with impl.testing.emulate("cuda"):
        results = mapped(call, mesh, check_vma=False)(*call.floats)
    with LOWERINGS["stand-in"]():
        want, _ = plain(call)(*call.arrays)
    assert_close(results, want)


@pytest.mark.triton
@pytest.mark.parametrize("check_vma", [True, False])
@each_kernel
def test_kernels_are_lowered_inside_shard_map(op, check_vma):
    call = named_calls()[op]
    gpu = impl.testing._mesh("NVIDIA H200").abstract_device
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,), abstract_device=gpu)
    with jax.sharding.use_abstract_mesh(mesh):
        traced = mapped(call, mesh, check_vma).trace(*call.floats)
        lowered = traced.lower(lowering_platforms=("cuda",))
    assert kernels(lowered) == {"scatter_add_runs"}
