"""The bits of a call are the same eager, compiled, in a loop and in ``shard_map``."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from impl.tests.every_op.programs import (
    SCALES,
    assert_agree,
    assert_close,
    at_floats,
    outputs_and_gradient,
    plain,
    sharded,
    transformed,
)
from impl.tests.every_op.public_ops import parametrize_samples

differentiable = parametrize_samples(lambda sample: sample.transformed and bool(sample.floats))


@parametrize_samples(lambda sample: sample.transformed)
def test_an_eager_call_and_a_compiled_one(sample):
    eager_outputs, eager_gradient = outputs_and_gradient(sample, *sample.arrays)
    outputs, gradient = plain(sample)(*sample.arrays)
    assert_agree(sample, outputs, eager_outputs, "outputs")
    assert_agree(sample, gradient, eager_gradient, "gradient")


@differentiable
def test_constant_indices(sample):
    outputs, gradient = plain(sample)(*sample.arrays)
    results = transformed(sample)
    assert_agree(sample, results["outputs"], outputs, "outputs")
    assert_agree(sample, results["gradient"], gradient, "gradient")


@differentiable
def test_checkpoint(sample):
    results = transformed(sample)
    assert_agree(sample, results["checkpoint"], plain(sample)(*sample.arrays)[1], "gradient")


@differentiable
def test_the_body_of_a_loop(sample):
    results = transformed(sample)
    for step, scale in enumerate(SCALES):
        scaled = [array * np.float32(scale) for array in sample.floats]
        outputs, gradient = at_floats(sample, scaled)
        assert_agree(sample, [out[step] for out in results["loop outputs"]], outputs, "outputs")
        # The derivative by the scale.
        want = sum(np.vdot(g, array) for g, array in zip(gradient, sample.floats, strict=True))
        assert_close(results["loop gradient"][step], want, "gradient", 1e-4)


@differentiable
def test_shard_map(sample):
    outputs, gradient = plain(sample)(*sample.arrays)
    for label, (mapped_outputs, mapped_gradient) in sharded(sample).items():
        assert_agree(sample, [out[0] for out in mapped_outputs], outputs, label)
        assert_agree(sample, [out[0] for out in mapped_gradient], gradient, label)


@parametrize_samples(lambda s: s.transformed and bool(s.floats) and s.uses_values)
def test_shard_map_notices_that_results_vary(sample):
    mapped = jax.shard_map(
        sample.outputs,
        mesh=Mesh(np.array(jax.devices()[:1]), ("d",)),
        in_specs=tuple(
            PartitionSpec("d") if np.ndim(a) else PartitionSpec() for a in sample.arrays
        ),
        out_specs=PartitionSpec(),
    )
    with pytest.raises(ValueError, match="replicat"):
        jax.eval_shape(mapped, *sample.arrays)
