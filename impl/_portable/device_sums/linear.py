"""Finds the operands to which a sum over devices may move, because the operation is linear in them.

``sum(f(x)) == f(sum(x))`` holds for numbers where ``f`` is linear, and for floats where ``f`` also
rounds as it does on one device. ``Rule.linear`` in the record of a primitive names the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp

from impl._portable.device_sums.shardings import TERM, Sharding
from impl._portable.rule import rule_of

#: An operand of an equation: a variable or a literal.
Atom: TypeAlias = Any


def _linear_in(equation: Any, varying: Sequence[int]) -> tuple[int, ...]:
    """Returns the operands in which an equation is jointly linear.

    Args:
        equation: The equation.
        varying: The operands that are not replicated. A product is linear in either operand.
    """
    linear = rule_of(equation).linear
    if linear == "each":
        return ()
    if linear == "either":
        return tuple(varying) if len(varying) == 1 else ()
    if isinstance(linear, slice):
        return tuple(range(len(equation.invars)))[linear]
    return linear


def passed(equation: Any, is_replicated: Callable[[Atom], bool]) -> tuple[int, ...]:
    """Returns the operands to which a sum of an equation's results moves; none if it stays.

    All other operands have to be replicated: a factor that differs between devices stays inside of
    the sum.

    Args:
        equation: The equation.
        is_replicated: Returns whether the devices of the sum have the same value of an operand.
    """
    atoms = equation.invars
    operands = _linear_in(equation, [i for i, atom in enumerate(atoms) if not is_replicated(atom)])
    fixed = [atom for i, atom in enumerate(atoms) if i not in operands]
    is_number = all(jnp.issubdtype(atoms[i].aval.dtype, jnp.number) for i in operands)
    return operands if is_number and all(map(is_replicated, fixed)) else ()


def adds_none(equation: Any) -> bool:
    """Returns whether an equation is a sum along axes of length 1."""
    shape, axes = equation.invars[0].aval.shape, equation.params.get("axes")
    return axes is not None and all(shape[axis] == 1 for axis in axes)


def having_terms(
    equation: Any, shardings: Sequence[Sharding], axes: Sequence[str]
) -> dict[tuple[int, ...], tuple[str, ...]]:
    """Returns the operands to which a sum over devices moves past an operation that adds elements.

    The operands have to be terms of the sum already. If they are sharded instead, the devices'
    elements are added by the operation itself, so the sum ends there. An operation that happens to
    add no two elements, such as a sum along an axis of length 1, lets each sum pass.

    Args:
        equation: An equation whose record has ``over_devices``.
        shardings: The shardings of its operands.
        axes: The mesh axes of the sum.

    Returns:
        The mesh axes along which the sum moves on, by the operands to which it moves.
    """
    is_of_one = adds_none(equation)
    result: dict[tuple[int, ...], tuple[str, ...]] = {}
    for axis in axes:
        varying = [i for i, sharding in enumerate(shardings) if axis in sharding]
        linear = _linear_in(equation, varying)
        if all(i in linear and (is_of_one or shardings[i][axis] is TERM) for i in varying):
            result[linear] = (*result.get(linear, ()), axis)
    return result
