"""The partitioning of primitives over devices.

Tests: impl._jax.shardings.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._core import partitioning
from impl._jax import shardings

pytestmark = pytest.mark.usefixtures("complete")

VALUES = np.ones((2, 4, 3), np.float32)
INDEX = np.array([0, 1, 1, 3])


def ops(values):
    """Returns results of a primitive of each kind, and a gradient."""

    def both(values):
        return impl.index_add(values, 1, INDEX, values), impl.index_select(values, 1, INDEX)

    out, pullback = jax.vjp(both, values)
    copied = impl.index_copy(values, 1, INDEX, values)
    return out, pullback(out), impl.sort(values, 1), copied


def in_shard_map(values):
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    return jax.shard_map(ops, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(values)


@pytest.mark.parametrize(
    "program",
    [
        lambda: jax.jit(ops).lower(VALUES),
        lambda: jax.jit(in_shard_map).lower(VALUES),
        lambda: impl.testing.lower(ops, VALUES),
    ],
    ids=["one device", "shard_map", "a GPU"],
)
def test_a_program_for_one_device_is_that_of_the_lowerings_alone(program, monkeypatch):
    def alone(function, names, context, *args):
        del names
        # From JAX 0.12 on, a type with a mesh of one device gets a constraint of its own.
        with shardings.no_mesh():
            context = shardings.without_shardings(context)
            return mlir.lower_fun(function, multiple_results=False)(context, *args)

    text = program().as_text()
    assert "CustomSPMDPartitioning" not in text
    monkeypatch.setattr(partitioning, "lower", alone)
    assert program().as_text() == text


def test_a_program_for_eight_gpus_is_lowered_without_them():
    gpu = impl.testing._mesh("NVIDIA H200").abstract_device
    mesh = AbstractMesh((8,), ("d",), axis_types=(AxisType.Auto,), abstract_device=gpu)
    values = jax.ShapeDtypeStruct((8, 4, 3), np.float32, sharding=NamedSharding(mesh, P("d")))
    with jax.sharding.use_abstract_mesh(mesh):
        lowered = jax.jit(ops).trace(values).lower(lowering_platforms=("cuda",))
    assert "CustomSPMDPartitioning" in lowered.as_text()


def test_an_exported_program_has_whole_arrays_on_each_device():
    added = jax.jit(lambda values: values.at[INDEX].add(1))
    exported = jax.export.export(added, platforms=["cuda"])(jnp.zeros((4, 3)))
    assert "sdy.sharding_constraint %arg0" in exported.mlir_module()


def test_complex_elements_are_selected_by_their_bits():
    values = np.array([complex(-0.0, 0.0), complex(0.0, -0.0)], np.complex64)
    out = partitioning.as_bits(lambda a, index: a[index])(values, np.array([1, 0, 1]))
    assert np.signbit(out.real).tolist() == [False, True, False]
    assert np.signbit(out.imag).tolist() == [True, False, True]
