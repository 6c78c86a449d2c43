"""The bits of a call are the same eager, compiled and in ``shard_map``. Oracles state them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from conformance.cases.table import samples, table
from conformance.lab.readers import hlo
from conformance.suite.cells import cells, portable_cells
from conformance.tests.every_op.calls import parametrize_by_primitives
from conformance.tests.every_op.programs import assert_agree, plain, sharded
from impl.tests.support.bits import assert_all_same_bits


def with_oracles():
    """Yields the samples of an op whose bits oracles state, each with a direction.

    Another release of JAX needs the first ones of each row and dtype.
    """
    first = {(cell.sample, cell.direction) for cell in portable_cells(cells(), ["cpu"])}
    for op in table():
        each = [(x, way) for x in samples(op) for way in x.directions if x.oracle(way)]
        own, others = [x for x in each if x in first], [x for x in each if x not in first]
        if own:
            yield pytest.param(own, id=op)
        if others:
            yield pytest.param(others, id=f"more of {op}", marks=pytest.mark.once)


@pytest.mark.parametrize("stated", list(with_oracles()))
def test_under_portable_a_cpu_has_the_bits_of_the_oracle(stated):
    @jax.jit
    def program(inputs):
        calls = [sample.function(impl, direction) for sample, direction in stated]
        return [call(*arrays) for call, arrays in zip(calls, inputs, strict=True)]

    inputs = [sample.inputs(direction) for sample, direction in stated]
    with impl.deterministic(profile="complete", guarantee="portable"):
        results = program(inputs)
    for (sample, direction), arrays, got in zip(stated, inputs, results, strict=True):
        want = sample.oracle(direction)(*arrays)
        assert_all_same_bits(*map(jax.tree.leaves, (got, want)), f"{sample.name}, {direction}")


@pytest.mark.parametrize("check_vma", [True, False])
@parametrize_by_primitives(lambda call: bool(call.floats), adding=True)
def test_shard_map(call, check_vma):
    outputs, gradient = plain(call)(*call.arrays)
    for label, mapped in sharded(call, check_vma).items():
        mapped_outputs, mapped_gradient = jax.tree.map(np.asarray, mapped)
        assert_agree(call, [out[0] for out in mapped_outputs], outputs, label)
        assert_agree(call, [out[0] for out in mapped_gradient], gradient, label)


@parametrize_by_primitives(lambda call: bool(call.floats))
def test_every_op_is_traced_in_shard_map(call):
    # An op that adds no primitive may start a loop with a constant, which does not vary.
    jax.eval_shape(functools.partial(sharded, call, True))


@parametrize_by_primitives(lambda s: bool(s.floats) and s.uses_values)
def test_shard_map_notices_that_results_vary(call):
    mapped = jax.shard_map(
        call.outputs,
        mesh=Mesh(np.array(jax.devices()[:1]), ("d",)),
        in_specs=tuple(PartitionSpec("d") if np.ndim(a) else PartitionSpec() for a in call.arrays),
        out_specs=PartitionSpec(),
    )
    with pytest.raises(ValueError, match="replicat"):
        jax.eval_shape(mapped, *call.arrays)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: impl.histc(x, 7, -1, 1),
        lambda x: impl.quantize_per_tensor(x, x[0], 0, impl.quint8),
    ],
    ids=["histc", "quantize_per_tensor"],
)
def test_integers_need_no_division_of_the_device(function):
    # On a GPU it may be off by 2 units in the last place: another bin, or another code.
    program = impl.testing.lower(function, jnp.ones(3))
    assert hlo.approximations(program.as_text("hlo", debug_info=True)) == []
