"""Counts the launches of a run of XLA's optimised program, and the bytes of their arrays.

XLA states no cost of a program for a GPU that is absent, so the program's text is read. Each
instruction outside of a fusion is a launch, which reads its operands and writes its result. Arrays
count whole, also where an instruction touches a part of them. XLA says how often a loop runs
(``known_trip_count``). A loop without that counts as if it ran no round, and of the branches of a
conditional, the one with the fewest launches counts: what computes elements in doubt again is rare.

For ``zeros.at[i].add(u)`` of 1,000 rows of 64 floats and 10,000 contributions, the text

    %fill = f32[1000,64]{1,0} fusion(), calls=%zeros
    ROOT %sum = f32[1000,64]{1,0} fusion(%fill, %i, %u), calls=%scatter

is two launches. ``fill`` writes 256,000 bytes. ``sum`` reads 256,000 bytes of zeros, 40,000 of
indices and 2,560,000 of contributions, and writes 256,000.
"""

from __future__ import annotations

import dataclasses
import re

from impl._reading import hlo
from impl._reading.hlo import Instruction, Program

_ROUNDS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
#: The instructions that launch nothing.
_NO_LAUNCH = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
        *("opt-barrier", "partition-id", "replica-id", "add-dependency"),
    }
)


@dataclasses.dataclass(frozen=True, order=True)
class Cost:
    """The kernels, copies and calls that a run starts, and the bytes of operands and results."""

    launches: int = 0
    moved: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.launches + other.launches, self.moved + other.moved)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.launches * times, self.moved * times)

    def __str__(self) -> str:
        return f"{self.launches:,} launches, {self.moved:,} bytes"


def cost_of(text: str) -> Cost:
    """Returns the least cost of a run, from the text of ``compiled.as_text()``."""
    program = hlo.parse(text)
    return _cost(program, program.entry)


def _cost(program: Program, computation: str) -> Cost:
    instructions = program.computations.get(computation, {})
    return sum((_of(program, each) for each in instructions.values()), Cost())


def _of(program: Program, each: Instruction) -> Cost:
    if each.opcode == "while":
        condition = _cost(program, each.attribute("condition"))
        rounds = _ROUNDS.search(each.rest)
        if rounds is None:
            return condition
        return (condition + _cost(program, each.attribute("body"))) * int(rounds[1])
    if each.opcode == "conditional":
        return min(_cost(program, name) for name in hlo.branches(each))
    if each.opcode == "call":
        return _cost(program, each.attribute("to_apply"))
    if each.opcode in _NO_LAUNCH or each.opcode.endswith("-update"):
        return Cost()
    operands = program.computations[each.computation]
    read = sum(operands[name].bytes for name in each.operands if name in operands)
    # The result of a start has the operands again, and the operand of its end is that result.
    if each.opcode.endswith("-start"):
        return Cost(1, read)
    if each.opcode.endswith("-done"):
        return Cost(0, each.bytes)
    return Cost(1, read + each.bytes)
