"""Which operations are linear, and in which of their operands.

A sum over devices passes a linear operation, whose result on one device is rounded no otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp

from impl._portable.device_sums.states import TERM, State

#: An operand of an equation: a variable, or a value that is written in the program.
Atom: TypeAlias = Any

#: Operations that are linear in their first operand, and in no other.
_FIRST = frozenset(
    {"broadcast_in_dim", "convert_element_type", "copy", "copy_p", "cumsum", "div"}
    | {"dynamic_slice", "gather", "name", "neg", "reduce_precision", "reduce_window_sum"}
    | {"reshape", "rev", "slice", "split", "squeeze", "tile", "transpose", "unstack"}
)
#: Operations that are linear in all operands together.
_ALL = frozenset({"add", "add_any", "concatenate", "pad", "stack", "sub"})
#: Operations that are linear in some operands together, and in no other.
_SOME = {"dynamic_update_slice": [0, 1], "scatter": [0, 2]}
#: Operations that add, and the operands that they are linear in.
ADDING: Mapping[str, tuple[int, ...]] = {
    "conv_general_dilated": (0, 1),
    "dot_general": (0, 1),
    "reduce_sum": (0,),
    "scatter-add": (0, 2),
}
#: Those that are linear in one operand, where the other is fixed.
_BILINEAR = frozenset({"conv_general_dilated", "dot_general"})


def operands(equation: Any, is_same: Callable[[Atom], bool]) -> list[int]:
    """Returns the operands that an equation is linear in, if all devices have the others.

    Args:
        equation: The equation.
        is_same: Tells whether all devices have a value.
    """
    atoms, name = equation.invars, str(equation.primitive.name)
    chosen: list[int] = []
    if name in _ALL:
        chosen = [*range(len(atoms))]
    elif name in _FIRST:
        chosen = [0]
    elif name in _SOME:
        chosen = _SOME[name]
    elif name == "select_n":
        chosen = [*range(1, len(atoms))]
    elif name == "mul":
        chosen = [i for i, atom in enumerate(atoms) if not is_same(atom)]
        chosen = chosen if len(chosen) == 1 else []
    fixed = [atom for i, atom in enumerate(atoms) if i not in chosen]
    is_number = all(jnp.issubdtype(atoms[i].aval.dtype, jnp.number) for i in chosen)
    return chosen if is_number and all(map(is_same, fixed)) else []


def terms(
    equation: Any, states: Sequence[State], axes: Sequence[str]
) -> dict[tuple[int, ...], tuple[str, ...]]:
    """Returns the operands of which devices have terms, with the mesh axes of the terms.

    What adds no two elements of a device has terms as soon as its operands do, whatever their
    states say.

    Args:
        equation: One of ``ADDING``.
        states: The states of its operands.
        axes: The mesh axes in question.
    """
    name = str(equation.primitive.name)
    shape = equation.invars[0].aval.shape
    is_one = name == "reduce_sum" and all(shape[axis] == 1 for axis in equation.params["axes"])
    result: dict[tuple[int, ...], tuple[str, ...]] = {}
    for axis in axes:
        having = [i for i, state in enumerate(states) if axis in state]
        linear = ADDING[name] if name not in _BILINEAR else tuple(having[:1])
        if all(i in linear and (is_one or states[i][axis] == TERM) for i in having):
            result[linear] = (*result.get(linear, ()), axis)
    return result
