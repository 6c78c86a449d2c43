"""The bits of a call are the same eager, compiled and in ``shard_map``."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from impl.tests.every_op.programs import assert_agree, outputs_and_gradient, plain, sharded
from impl.tests.every_op.public_ops import parametrize_by_primitives, parametrize_pairs


@parametrize_by_primitives(lambda sample: sample.transformed)
def test_an_eager_call_and_a_compiled_one(sample):
    eager_outputs, eager_gradient = outputs_and_gradient(sample, *sample.arrays)
    outputs, gradient = plain(sample)(*sample.arrays)
    assert_agree(sample, outputs, eager_outputs, "outputs")
    assert_agree(sample, gradient, eager_gradient, "gradient")


@parametrize_pairs(
    "check_vma", [True, False], lambda sample: sample.transformed and bool(sample.floats)
)
def test_shard_map(sample, check_vma):
    outputs, gradient = plain(sample)(*sample.arrays)
    for label, (mapped_outputs, mapped_gradient) in sharded(sample, check_vma).items():
        assert_agree(sample, [out[0] for out in mapped_outputs], outputs, label)
        assert_agree(sample, [out[0] for out in mapped_gradient], gradient, label)


@parametrize_by_primitives(lambda s: s.transformed and bool(s.floats) and s.uses_values)
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
