"""Estimates how many cells an expression of ``-k`` selects.

Workers of pytest-xdist take seconds to start, because each imports JAX and collects all tests. For
the tests of one row, one process is faster. The estimate decides nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from conformance.suite.cells import cells

#: The largest number of cells for which one process is faster than several.
_FEW = 80
_WORD = re.compile(r"[^\s()]+")
_OPERATORS = ("and", "or", "not")
_UNKNOWN = 0.5


def is_small(arguments: Sequence[str], profile: str | None) -> bool:
    """Returns whether the arguments of pytest select few cells.

    Args:
        arguments: The arguments, which may contain ``-k``.
        profile: The profile of the run. None for all profiles.
    """
    expression = _expression(arguments)
    if expression is None:
        return False
    names = [str(cell).lower() for cell in cells() if profile in (None, cell.profile)]
    count = estimate(expression, names)
    return count is not None and count <= _FEW


def estimate(expression: str, names: Sequence[str]) -> int | None:
    """Returns the number of cells that an expression may select. None if it is malformed.

    A word that no cell has in its name may select tests of any cell, as ``test_bits`` does.
    """
    words = sorted({_cell_of(word) for word in _WORD.findall(expression)} - set(_OPERATORS))
    variables = {word: f"word_{number}" for number, word in enumerate(words)}
    text = _WORD.sub(lambda match: variables.get(_cell_of(match[0]), match[0]), expression)
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    known = {word for word in words if any(word in name for name in names)}
    count = 0
    for name in names:
        values = {
            variable: float(word in name) if word in known else _UNKNOWN
            for word, variable in variables.items()
        }
        count += _value(tree, values) > 0
    return count


def _cell_of(word: str) -> str:
    """Returns the part of a test's name that is in brackets. A word without brackets stays."""
    return word.lower().rpartition("[")[2].rstrip("]")


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    """Returns 1 for true, 0 for false, and ``_UNKNOWN``."""
    match node:
        case ast.BoolOp(op=ast.And(), values=operands):
            return min(_value(operand, values) for operand in operands)
        case ast.BoolOp(values=operands):
            return max(_value(operand, values) for operand in operands)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return 1 - _value(operand, values)
        case ast.Name(id=variable):
            return values[variable]
        case _:
            return _UNKNOWN


def _expression(arguments: Sequence[str]) -> str | None:
    for position, argument in enumerate(arguments):
        if argument == "-k":
            return " ".join(arguments[position + 1 : position + 2])
        if argument.startswith("-k"):
            return argument.removeprefix("-k").removeprefix("=")
    return None
