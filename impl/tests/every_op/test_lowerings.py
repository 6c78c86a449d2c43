"""The lowerings of other devices under ``vmap`` and in ``shard_map``, for an op of each kernel."""

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec

import impl
from impl.tests.every_op.programs import plain
from impl.tests.every_op.public_ops import samples_of
from impl.tests.every_op.test_batches import EXAMPLES, stacked
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.programs import kernels

#: An op with the kernel of sorted runs.
each_kernel = pytest.mark.parametrize("op", ["index_add"])


def assert_close(results, wanted):
    """Compares results up to rounding: a kernel sums blocks that also hold other runs."""
    for got, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def mapped(sample, mesh, check_vma):
    """Maps the op over a mesh of one device; the indices are constants."""
    positions = sample.float_positions

    def function(*floats):
        values = dict(zip(positions, floats, strict=True))
        return sample.outputs(*(values.get(i, a) for i, a in enumerate(sample.arrays)))

    split = PartitionSpec("d")
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, check_vma=check_vma)
    )


@pytest.mark.parametrize("lowering", ["xla", "seed 1"])
@each_kernel
def test_vmap(op, lowering):
    sample = samples_of(op)[0]
    batches = [stacked(array) for array in sample.arrays]
    # The indices, where there are any, are the same for all examples.
    axes = [None if array.dtype.kind == "i" else 0 for array in sample.arrays]
    arguments = [
        batch[0] if axis is None else batch for batch, axis in zip(batches, axes, strict=True)
    ]
    with LOWERINGS[lowering]():
        results = jax.jit(jax.vmap(sample.outputs, axes))(*arguments)
    for example in range(EXAMPLES):
        single = [
            argument if axis is None else argument[example]
            for argument, axis in zip(arguments, axes, strict=True)
        ]
        with LOWERINGS["stand-in"]():
            want, _ = plain(sample)(*single)
        assert_close([out[example] for out in results], want)


@each_kernel
def test_interpreted_kernels_run_inside_shard_map(op):
    sample = samples_of(op)[0]
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    # Pallas' interpreter does not support values that vary over a mesh.
    with impl.testing.emulate("cuda"):
        results = mapped(sample, mesh, check_vma=False)(*sample.floats)
    with LOWERINGS["stand-in"]():
        want, _ = plain(sample)(*sample.arrays)
    assert_close(results, want)


@pytest.mark.triton
@pytest.mark.parametrize("check_vma", [True, False])
@each_kernel
def test_kernels_are_lowered_inside_shard_map(op, check_vma):
    sample = samples_of(op)[0]
    gpu = impl.testing._mesh("NVIDIA H200").abstract_device
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,), abstract_device=gpu)
    with jax.sharding.use_abstract_mesh(mesh):
        traced = mapped(sample, mesh, check_vma).trace(*sample.floats)
        lowered = traced.lower(lowering_platforms=("cuda",))
    assert kernels(lowered) == {"scatter_add_runs"}
