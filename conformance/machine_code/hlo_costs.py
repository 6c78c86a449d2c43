"""Counts what a run of XLA's optimised program starts and moves, from the program's text.

XLA states no cost of a program for a GPU that is absent. Here a launch reads all its operands and
writes its result, so that a launch that reads a part of an operand counts as if it read all.
"""

from __future__ import annotations

import dataclasses
import math
import re

_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (\(.*?\)|[^\s(]\S*) ([a-z][\w-]*)\((.*)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_TYPE = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\]")
_ROUNDS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CALLED = re.compile(
    r"\b(?:body|condition|to_apply|true_computation|false_computation)=%?([\w.-]+)"
)
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
#: What a program contains without a launch.
_NO_LAUNCH = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
        *("opt-barrier", "partition-id", "replica-id", "add-dependency"),
    }
)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a run of a program does.

    Attributes:
        launches: The kernels, copies and calls that it starts.
        moved: The bytes of their operands and results.
    """

    launches: int
    moved: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.launches + other.launches, self.moved + other.moved)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.launches * times, self.moved * times)


_NOTHING = Cost(0, 0)


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    result: str
    opcode: str
    rest: str


def cost(text: str) -> Cost:
    """Returns the cost of a run of an optimised program.

    The rounds of a loop count each, once where their number is unknown. Of the branches of a
    conditional, the one with the most launches counts.

    Args:
        text: The text of ``compiled.as_text()``.
    """
    entry = ""
    computations: dict[str, list[_Instruction]] = {}
    current: list[_Instruction] = []
    for line in text.splitlines():
        start = _COMPUTATION.match(line)
        if start:
            current = computations[start[1]] = []
            entry = start[1] if line.startswith("ENTRY") else entry
        match = _INSTRUCTION.match(line)
        if match:
            current.append(_Instruction(*match.groups()))
    return _of_computation(entry, computations)


def _of_computation(name: str, computations: dict[str, list[_Instruction]]) -> Cost:
    instructions = computations[name]
    sizes = {each.name: _size(each.result) for each in instructions}
    total = _NOTHING
    for each in instructions:
        called = [_of_computation(other, computations) for other in _called(each)]
        if each.opcode == "while":
            rounds = _ROUNDS.search(each.rest)
            total += sum(called, _NOTHING) * (int(rounds[1]) if rounds else 1)
        elif each.opcode == "conditional":
            total += max(called, key=lambda branch: branch.launches)
        elif each.opcode == "call":
            total += sum(called, _NOTHING)
        elif each.opcode not in _NO_LAUNCH:
            operands = re.findall(r"%([\w.-]+)", each.rest.partition(")")[0])
            moved = sizes[each.name] + sum(sizes.get(operand, 0) for operand in operands)
            total += Cost(1, moved)
    return total


def _called(instruction: _Instruction) -> list[str]:
    """Returns the computations that a loop, a conditional or a call runs."""
    if instruction.opcode not in {"while", "conditional", "call"}:
        return []
    branches = _BRANCHES.search(instruction.rest)
    names = re.findall(r"[\w.-]+", branches[1]) if branches else []
    return [*_CALLED.findall(instruction.rest), *names]


def _size(result: str) -> int:
    """Returns the bytes of a type, or of all types of a tuple."""
    total = 0
    for dtype, shape in _TYPE.findall(result):
        bits = re.search(r"\d+", dtype)
        width = 1 if bits is None else max(1, int(bits[0]) // 8)
        total += width * math.prod(int(size) for size in shape.split(",") if size)
    return total
