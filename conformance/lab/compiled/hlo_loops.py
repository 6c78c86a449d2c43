"""How often a loop of XLA's optimised program runs.

XLA states the number of rounds where it is a constant. For other loops this finds a bound: where
the condition demands, alone or beside other things, that a counter is below a constant, and each
round adds a constant to the counter, the loop can run no longer than that.
"""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

from conformance.lab.compiled.hlo_program import Instruction, Program

_ROUNDS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_INTEGER = re.compile(r"-?\d+")
#: What passes a scalar on.
_SAME = frozenset({"copy", "bitcast", "convert", "reshape", "opt-barrier", "broadcast"})


@dataclasses.dataclass(frozen=True)
class Rounds:
    """How often a loop runs.

    Attributes:
        count: The number of rounds; None if nothing bounds it.
        is_exact: Whether it is no bound but the number.
    """

    count: int | None
    is_exact: bool


class _Value(NamedTuple):
    """An instruction, and the values of the parameters of the fusion that it is in."""

    computation: str
    instruction: Instruction
    caller: tuple[_Value, ...] = ()


def rounds(program: Program, computation: str, loop: Instruction) -> Rounds:
    """Returns how often a loop runs each time that it starts.

    Args:
        program: The program.
        computation: The computation that the loop is in.
        loop: The instruction ``while``.
    """
    known = _ROUNDS.search(loop.rest)
    if known:
        return Rounds(int(known[1]), is_exact=True)
    condition, body = loop.attribute("condition"), loop.attribute("body")
    if condition is None or body is None:
        return Rounds(None, is_exact=False)
    bounds = []
    for compare in _needed(program, _Value(condition, program.root(condition))):
        found = _bound(program, compare, (computation, loop), body)
        if found is not None:
            bounds.append(found)
    return Rounds(min(bounds, default=None), is_exact=False)


def _needed(program: Program, value: _Value) -> list[_Value]:
    """Returns the comparisons that must all be true for the loop to go on."""
    value = _resolved(program, value)
    if value.instruction.opcode == "and":
        parts = [_operand(program, value, number) for number in (0, 1)]
        return [each for part in parts for each in _needed(program, part)]
    return [value] if value.instruction.opcode == "compare" else []


def _bound(
    program: Program, compare: _Value, loop: tuple[str, Instruction], body: str
) -> int | None:
    """Returns the rounds until a comparison of a counter and a constant becomes false."""
    left, right = (_operand(program, compare, number) for number in (0, 1))
    direction = compare.instruction.attribute("direction")
    if direction in {"GT", "GE"}:
        left, right, direction = right, left, {"GT": "LT", "GE": "LE"}[direction]
    counter, limit = _element(program, left), _constant(program, right)
    if direction not in {"LT", "LE"} or counter is None:
        return None
    # A limit that is no constant may be an element of the state that no round changes.
    limit = _start_of_invariant(program, right, loop, body) if limit is None else limit
    start = _start(program, loop, counter)
    step = _step(program, body, counter)
    if limit is None or start is None or step is None or step <= 0:
        return None
    return max(0, -(-(limit + (direction == "LE") - start) // step))


def _start_of_invariant(
    program: Program, value: _Value, loop: tuple[str, Instruction], body: str
) -> int | None:
    number = _element(program, value)
    if number is None:
        return None
    after = _resolved(program, _tuple_part(program, _Value(body, program.root(body)), number))
    same = after.computation == body and _element(program, after) == number
    return _start(program, loop, number) if same else None


def _start(program: Program, loop: tuple[str, Instruction], number: int) -> int | None:
    computation, instruction = loop
    state = program.instruction(computation, instruction.operands[0])
    return _constant(program, _tuple_part(program, _Value(computation, state), number))


def _step(program: Program, body: str, number: int) -> int | None:
    after = _resolved(program, _tuple_part(program, _Value(body, program.root(body)), number))
    if after.instruction.opcode != "add":
        return None
    parts = [_operand(program, after, each) for each in (0, 1)]
    for one, other in (parts, parts[::-1]):
        if _element(program, one) == number:
            return _constant(program, other)
    return None


def _element(program: Program, value: _Value) -> int | None:
    """Returns which element of the loop's state a value is; None if it is none."""
    value = _resolved(program, value)
    if value.instruction.opcode != "get-tuple-element" or value.caller:
        return None
    source = program.instruction(value.computation, value.instruction.operands[0])
    index = value.instruction.attribute("index")
    return int(index) if source.opcode == "parameter" and index is not None else None


def _constant(program: Program, value: _Value) -> int | None:
    value = _resolved(program, value)
    literal = value.instruction.literal.strip()
    is_number = value.instruction.opcode == "constant" and _INTEGER.fullmatch(literal)
    return int(literal) if is_number else None


def _tuple_part(program: Program, value: _Value, number: int) -> _Value:
    if value.instruction.opcode == "tuple" and number < len(value.instruction.operands):
        return _operand(program, value, number)
    return value


def _operand(program: Program, value: _Value, number: int) -> _Value:
    name = value.instruction.operands[number]
    return value._replace(instruction=program.instruction(value.computation, name))


def _resolved(program: Program, value: _Value) -> _Value:
    """Follows copies, and goes into fusions and out of them again."""
    while True:
        instruction = value.instruction
        if instruction.opcode in _SAME and instruction.operands:
            value = _operand(program, value, 0)
        elif instruction.opcode == "fusion" and instruction.calls:
            caller = tuple(_operand(program, value, n) for n in range(len(instruction.operands)))
            value = _Value(instruction.calls, program.root(instruction.calls), caller)
        elif instruction.opcode == "get-tuple-element" and _fused_part(program, value):
            value = _fused_part(program, value) or value
        elif instruction.opcode == "parameter" and value.caller:
            value = value.caller[int(instruction.literal)]
        else:
            return value


def _fused_part(program: Program, value: _Value) -> _Value | None:
    """Returns the part that a ``get-tuple-element`` takes of a fusion's result."""
    source = _operand(program, value, 0)
    index = value.instruction.attribute("index")
    if source.instruction.opcode != "fusion" or index is None:
        return None
    inside = _resolved(program, source)
    if inside.instruction.opcode != "tuple":
        return None
    return _operand(program, inside, int(index))
