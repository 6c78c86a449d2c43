"""How the devices of a ``shard_map`` hold a value: the abstract values that ``flow`` computes with.

Inside a ``shard_map``, every device runs the same program on its own values. Along each axis of the
mesh, the devices hold a value in one of four ways:

============== =================================== ========================================
word           devices along the axis have         in a ``Sharding``
============== =================================== ========================================
replicated     the same value                      no entry
sharded        slices along a dimension            the number of the dimension
term of a sum  terms whose sum over them is meant  ``TERM``
unknown        different values                    ``UNKNOWN``
============== =================================== ========================================

On a mesh with the axes ``d`` and ``m``, ``{"d": 0}`` is a value whose dimension 0 is sharded over
``d``, and which is replicated over ``m``. A contraction of dimension 0 makes ``{"d": TERM}`` of it.

Only "replicated" is guaranteed. The analysis records a dimension or ``TERM`` where they are easy to
see; a value that is ``UNKNOWN`` may be sharded or a term too.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias


class Kind(enum.Enum):
    """How devices along a mesh axis hold a value, if the axis shards no known dimension of it."""

    TERM = "term"
    UNKNOWN = "unknown"


TERM, UNKNOWN = Kind.TERM, Kind.UNKNOWN

#: How devices along one mesh axis hold a value that is not replicated: the dimension that the axis
#: shards, or a ``Kind``.
Part: TypeAlias = int | Kind
#: How devices hold a value: the part for each mesh axis over which it is not replicated.
Sharding: TypeAlias = Mapping[str, Part]


def unknown(axes: Iterable[str]) -> Sharding:
    """Returns an unknown sharding over some mesh axes, which is replicated over all other axes.

    Args:
        axes: The mesh axes over which the value may differ. A ``Sharding`` is such an iterable.
    """
    return dict.fromkeys(axes, UNKNOWN)


def merged(a: Sharding, b: Sharding) -> Sharding:
    """Returns the sharding of a value that is one of two, such as the result of a condition."""
    return {**a, **b, **unknown(axis for axis in a if axis in b and a[axis] != b[axis])}


def moved(sharding: Sharding, dimensions: Mapping[int, Part]) -> Sharding:
    """Returns the sharding of a result whose dimensions are some of its operand's.

    Args:
        sharding: The sharding of the operand.
        dimensions: The dimension of the result for each dimension of the operand, or ``TERM`` if
            the operation adds along it. A dimension that is left out becomes ``UNKNOWN``.
    """
    return {
        axis: dimensions.get(part, UNKNOWN) if isinstance(part, int) else part
        for axis, part in sharding.items()
    }


def without_dimension(sharding: Sharding, dimension: int) -> Sharding:
    """Returns the sharding of one index of a dimension: a value without that dimension."""
    return {
        axis: part
        if isinstance(part, Kind) or part < dimension
        else (part - 1 if part > dimension else UNKNOWN)
        for axis, part in sharding.items()
    }


def with_dimension(sharding: Sharding, dimension: int) -> Sharding:
    """Returns the sharding of several values that are stacked along a new dimension."""
    return {
        axis: part + 1 if isinstance(part, int) and part >= dimension else part
        for axis, part in sharding.items()
    }


def combined(operands: Sequence[Sharding], linear: Callable[[str], bool]) -> Sharding:
    """Returns the sharding of a result that has the dimensions of each of its operands.

    ``linear`` says whether terms of a sum over a mesh axis remain terms.
    """
    parts = {a: [o[a] for o in operands if a in o] for o in operands for a in o}
    return {
        axis: _agreed([p for p in each if isinstance(p, int)], each, is_linear=linear(axis))
        for axis, each in parts.items()
    }


def contracted(operands: Sequence[Sharding], dimensions: Sequence[Mapping[int, Part]]) -> Sharding:
    """Returns the sharding of a product of two operands, which is summed over dimensions.

    The dimensions of each operand are as in ``moved``.
    """
    result: dict[str, Part] = {}
    for axis in {axis for operand in operands for axis in operand}:
        pairs = zip(operands, dimensions, strict=True)
        parts = [(operand[axis], to) for operand, to in pairs if axis in operand]
        targets = [to.get(part, UNKNOWN) for part, to in parts if isinstance(part, int)]
        # A product of two terms is not a term of the product of two sums.
        is_linear = len(parts) == 1
        result[axis] = _agreed(targets, [part for part, _ in parts], is_linear=is_linear)
    return result


def _agreed(targets: Sequence[Part], parts: Sequence[Part], *, is_linear: bool) -> Part:
    """Returns how devices along one axis hold the result of several operands.

    A sharded operand decides, also where others are unknown: they have to fit its slices.

    Args:
        targets: For each operand that is sharded, what becomes of its dimension in the result.
        parts: How devices hold each operand that is not replicated.
        is_linear: Whether terms of a sum remain terms.
    """
    if targets:
        return targets[0] if len({*targets}) == 1 and TERM not in parts else UNKNOWN
    return TERM if {*parts} == {TERM} and is_linear else UNKNOWN


def of_unknown_operation(out: Any, equation: Any, operands: Sequence[Sharding]) -> Sharding:
    """Returns the sharding of an output of an operation without a rule.

    The operation is taken to be elementwise if all shapes are the same; then dimensions stay.
    """
    shape = getattr(out.aval, "shape", None)
    shapes = [getattr(atom.aval, "shape", None) for atom in equation.invars]
    if all(each in (shape, ()) for each in shapes):
        return combined(operands, linear=lambda _: False)
    return unknown(axis for operand in operands for axis in operand)
