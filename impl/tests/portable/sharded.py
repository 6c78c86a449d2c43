"""Follows shardings through functions, as if they were bodies of a ``shard_map``."""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from impl._portable import rules
from impl._portable.device_sums.flow import Flow, sharding_of
from impl._reading.control_flow import inlined

assert rules.RULES  # The import registers them.
SIZES = {"d": 4, "m": 2}
MESH = AbstractMesh((4, 2), ("d", "m"), axis_types=(AxisType.Auto,) * 2)


def body(function, *shapes):
    """Returns the jaxpr of a function of the arrays that one device has."""
    specs = {"in_specs": (P(),) * len(shapes), "out_specs": P(), "check_vma": False}
    mapped = jax.shard_map(function, mesh=MESH, **specs)
    (equation,) = jax.make_jaxpr(mapped)(*map(jnp.ones, shapes)).eqns
    return inlined(equation.params["jaxpr"])


def results(function, *operands):
    """Returns the shardings of the results of a function.

    Args:
        function: The function.
        *operands: The shape and the sharding of each operand.
    """
    jaxpr = body(function, *(shape for shape, _ in operands))
    known = Flow(SIZES).shardings(jaxpr, [sharding for _, sharding in operands])
    return [sharding_of(known, atom) for atom in jaxpr.outvars]
