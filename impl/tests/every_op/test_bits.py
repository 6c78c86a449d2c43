"""The bits of a call are the same eager, compiled and in ``shard_map``."""

import functools

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from impl.tests.every_op.programs import assert_agree, outputs_and_gradient, plain, sharded
from impl.tests.every_op.public_ops import parametrize_by_primitives


@parametrize_by_primitives(lambda sample: sample.transformed)
def test_an_eager_call_and_a_compiled_one(sample):
    outputs, _ = plain(sample)(*sample.arrays)
    assert_agree(sample, outputs, sample.outputs(*sample.arrays), "outputs")


# JAX has a rule for each primitive. To compile all of the gradient's takes long.
@parametrize_by_primitives(lambda sample: sample.transformed, adding=True)
def test_an_eager_gradient_and_a_compiled_one(sample):
    _, gradient = plain(sample)(*sample.arrays)
    _, eager_gradient = outputs_and_gradient(sample, *sample.arrays)
    assert_agree(sample, gradient, eager_gradient, "gradient")


@pytest.mark.parametrize("check_vma", [True, False])
@parametrize_by_primitives(lambda sample: sample.transformed and bool(sample.floats), adding=True)
def test_shard_map(sample, check_vma):
    outputs, gradient = plain(sample)(*sample.arrays)
    for label, mapped in sharded(sample, check_vma).items():
        mapped_outputs, mapped_gradient = jax.tree.map(np.asarray, mapped)
        assert_agree(sample, [out[0] for out in mapped_outputs], outputs, label)
        assert_agree(sample, [out[0] for out in mapped_gradient], gradient, label)


@parametrize_by_primitives(lambda sample: sample.transformed and bool(sample.floats))
def test_every_op_is_traced_in_shard_map(sample):
    # An op that adds no primitive may start a loop with a constant, which does not vary.
    jax.eval_shape(functools.partial(sharded, sample, True))


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
