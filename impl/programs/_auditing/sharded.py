"""Finds the equations of a program whose operands are sharded, before XLA partitions it.

How devices share an array can show in the bits of an operation that combines elements, but no
equation says how they share it. So the shardings of a program's arguments are followed to its
equations, by the rules that ``portable`` has for the body of a ``shard_map``
(``impl._portable.device_sums.flow``). With the rows of ``x`` on different devices of the mesh axis
``d``, and the whole of ``w`` on each, the first two products are found, and the last one is not::

    y:f32[8,3] = dot_general x w      {"d": 0}
    g:f32[4,3] = dot_general x y      {}, since XLA adds the terms of the devices here
    s:f32[4,4] = dot_general g w

XLA may share further arrays, so an equation that is not found can still depend on the devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from impl._jax import jaxprs
from impl._portable.device_sums.flow import Flow, sharding_of
from impl._portable.device_sums.shardings import TERM, Sharding, unknown
from impl._reading import control_flow


def sharded_equations(jaxpr: Any, shardings: Iterable[Any]) -> set[int]:
    """Returns the ``id`` of each equation with a sharded operand, or of a sum over devices.

    Args:
        jaxpr: The program, without constants.
        shardings: JAX's shardings of its first inputs; None or another object stands for no
            sharding.
    """
    flow = _Partitioned({}, set())
    inputs = [*map(_of, shardings)]
    flow.shardings(jaxpr, inputs + [{}] * (len(jaxpr.invars) - len(inputs)))
    return flow.found


def _of(sharding: Any) -> Sharding:
    """Returns how devices share an array with one of JAX's shardings."""
    if isinstance(sharding, jax.sharding.NamedSharding):
        return _cut(sharding.spec, sharding.mesh.shape)
    is_one = not isinstance(sharding, jax.sharding.Sharding) or sharding.is_fully_replicated
    return unknown(() if is_one else ("devices",))


def _cut(spec: jax.sharding.PartitionSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    return {axis: d for axis, d in jaxprs.cut_axes(spec).items() if sizes[axis] > 1}


def _typed(found: Sharding, own: Any) -> Sharding:
    """Returns a sharding without terms, of a value whose type knows the explicit axes of a mesh."""
    explicit = own.mesh.explicit_axes if isinstance(own, jax.sharding.NamedSharding) else ()
    others = {axis: p for axis, p in found.items() if p is not TERM and axis not in explicit}
    return {**others, **_of(own)}


@dataclasses.dataclass(frozen=True)
class _Partitioned(Flow):
    """Follows the shardings of a whole program, in which no value stays a term of a sum.

    ``sizes`` has the axes of the ``shard_map`` around, which sums over devices name.
    """

    found: set[int]

    def _results(self, equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
        params, body = equation.params, control_flow.called(equation)
        if any(operands) or self.sizes.keys() & (jaxprs.named_axes(equation) or ()):
            self.found.add(id(equation))
        if equation.primitive.name == "shard_map":
            results = self._of_devices(params, operands)
        elif equation.primitive.name == "sharding_constraint":
            results = [_of(params["sharding"])]
        elif body is not None and None not in body.inputs:
            results = self._outputs(body, body.arguments(operands))
        elif any(operands) or control_flow.bodies(equation):
            results = super()._results(equation, operands)
        else:
            results = [{} for _ in equation.outvars]
        pairs = zip(results, equation.outvars, strict=True)
        return [_typed(each, getattr(out.aval, "sharding", None)) for each, out in pairs]

    def _of_devices(
        self, params: Mapping[str, Any], operands: Sequence[Sharding]
    ) -> list[Sharding]:
        """Returns the shardings of the results of a ``shard_map``, and follows its body."""
        sizes, own = params["mesh"].shape, params["newly_manual_axes"]

        def held(values: Sequence[Sharding], specs: Sequence[Any]) -> list[Sharding]:
            """Returns shardings, of which the specs know the axes of this ``shard_map``."""
            others = [{axis: p for axis, p in each.items() if axis not in own} for each in values]
            return [each | _cut(spec, sizes) for each, spec in zip(others, specs, strict=True)]

        own_sizes = {axis: size for axis, size in sizes.items() if size > 1}
        inside = dataclasses.replace(self, sizes={**self.sizes, **own_sizes})
        body = jaxprs.opened(params["jaxpr"])
        known = inside.shardings(body, held(operands, params["in_specs"]))
        return held([sharding_of(known, out) for out in body.outvars], params["out_specs"])
