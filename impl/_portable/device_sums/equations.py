"""The equations of sums over devices that moved: ``push`` writes them."""

from __future__ import annotations

from typing import Any, TypeAlias

from impl._core.jax_internals import Primitive

#: The names of mesh axes.
Names: TypeAlias = tuple[str, ...]

#: An operation on the parts that devices have of its operands, as if one device had them all.
whole_p = Primitive("samebits_whole")
#: A value that all devices have, with a type that says so.
same_p = Primitive("samebits_same")
#: The part of a value that a device gets of ``reduce_scatter``, where all devices have the value.
part_p = Primitive("samebits_part")


def as_whole(equation: Any, like: Any, axes: Names, free: Names) -> Any:
    """Returns an equation that computes on parts of operands what another does on them.

    Args:
        equation: The other.
        like: One with the same effects.
        axes: The mesh axes over which what is added is cut.
        free: Those over which the free dimensions of the right operand of a product are cut.
    """
    params = {
        "name": str(equation.primitive.name),
        "params": tuple(equation.params.items()),
        "axis_names": axes,
        "free_names": free,
    }
    return equation.replace(primitive=whole_p, params=params, effects=like.effects)
