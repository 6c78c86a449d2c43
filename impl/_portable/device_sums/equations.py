"""The primitives that ``push`` writes into a jaxpr; ``lower_sums`` lowers them.

A user never calls them: they appear after JAX has differentiated and batched a program, so they
have lowering rules and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax

from impl._jax import Primitive

#: The names of mesh axes.
Names: TypeAlias = tuple[str, ...]

#: A joined sum: an operation on the operands of all devices along some axes, as if one device had
#: all of them. Its parameters are the name of the operation, its parameters, the mesh axes, and the
#: type of the result, since ``carried_sums`` computes it once more.
whole_p = Primitive("samebits_whole")
whole_p.def_abstract_eval(lambda *_, result, **__: result)
#: A replicated value, in a type that says so. It computes nothing.
same_p = Primitive("samebits_same")
same_p.def_abstract_eval(lambda value: value)  # As of ``whole_p``.
#: The slice that ``reduce_scatter`` gives a device, of a sum that is replicated.
part_p = Primitive("samebits_part")


def as_whole(equation: Any, like: Any, axes: Names) -> Any:
    """Returns the joined sum that stands for an operation on the operands of one device.

    Args:
        equation: The operation, whose record has ``over_devices``.
        like: An equation with the effects of the result.
        axes: The mesh axes over which the elements that it adds are sharded.
    """
    aval = equation.outvars[0].aval
    params = {
        "name": str(equation.primitive.name),
        "params": tuple(equation.params.items()),
        "axis_names": axes,
        "result": jax.core.ShapedArray(aval.shape, aval.dtype),
    }
    return equation.replace(primitive=whole_p, params=params, effects=like.effects)


def over_more_devices(whole: Any, axes: Sequence[str], out: Any) -> Any:
    """Returns a joined sum over further mesh axes.

    Args:
        whole: The joined sum.
        axes: The further mesh axes.
        out: The output.
    """
    params = {**whole.params, "axis_names": (*whole.params["axis_names"], *axes)}
    return whole.replace(params=params, outvars=[out])
