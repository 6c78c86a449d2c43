"""Counts the launches of a run of XLA's optimised program, and the bytes that they move.

XLA states no cost of a program for a GPU that is absent, and a time would need a model of the GPU.
Launches and bytes need none, because the program's text shows them. Each instruction outside of
fusions is a launch, which reads its operands and writes its result. Four kinds of instructions
touch less, also inside of a fusion: a slice reads the part that it returns, a gather reads whole
sectors of 32 bytes for each of its slices, an update in place writes the part that changes, and a
scatter reads and writes the sectors that it updates.

- XLA says how often a loop runs (``known_trip_count``). A loop without that is an error.
- Of the branches of a conditional, the one with the most launches counts.
- Loops and branches that compute elements in doubt again are marked (``in_any_order``). They count
  as if no element is in doubt: a loop asks its condition once, and the shorter branch runs.
- A kernel of Pallas reads each operand once, as far as the program tells.
- A sort is one launch. On a device it takes several: CUB's radix sort takes 12 for keys of 32 bits.

For ``zeros.at[i].add(u)`` of 1,000 rows of 64 floats and 10,000 contributions, the text

    %fill = f32[1000,64]{1,0} fusion(), calls=%zeros
    ROOT %sum = f32[1000,64]{1,0} fusion(%fill, %i, %u), calls=%scatter

is two launches. ``fill`` writes 256,000 bytes. ``sum`` reads 40,000 bytes of indices and 2,560,000
of contributions, and reads and writes 256,000 bytes of sums, since it updates nearly all rows.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np

from impl._core.numerics import ANY_ORDER
from impl._reading import hlo
from impl._reading.hlo import Instruction, Program

_ROUNDS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_CALLED = ("condition", "body", "to_apply", "true_computation", "false_computation")
_SLICE_SIZES = re.compile(r"\bslice_sizes=\{([\d,]*)\}")
_WINDOW = re.compile(r"\bupdate_window_dims=\{([\d,]*)\}")
_KERNEL = re.compile(r'\bname = "([^"]*)"')
_PALLAS = "__gpu$xla.gpu.triton"
#: The instructions that launch nothing.
_NO_LAUNCH = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
        *("opt-barrier", "partition-id", "replica-id", "add-dependency"),
    }
)
#: The ends of the opcodes that start an operation, and that wait for it.
_START = "-start"
_WAITS = ("-done", "-update")
#: The instructions that pass their operand on. The reads of their users count instead.
_SAME = frozenset({"bitcast", "reshape"})
#: The least number of bytes that a GPU reads from memory.
_SECTOR = 32


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a run of a program.

    Attributes:
        launches: The kernels, copies and calls that it starts.
        moved: The bytes of their operands and results.
    """

    launches: int
    moved: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.launches + other.launches, self.moved + other.moved)


_NOTHING = Cost(0, 0)


@dataclasses.dataclass(frozen=True)
class Launch:
    """An instruction that starts something.

    Attributes:
        name: Its name in the program.
        code: The name of the kernel of Pallas or of the library that runs; else the opcode.
        moved: The bytes of its operands and its result, each time.
        times: How often the loops around it run it.
        scope: The operation of JAX that it was made of.
    """

    name: str
    code: str
    moved: int
    times: int
    scope: str

    @property
    def cost(self) -> Cost:
        """The cost of all times."""
        return Cost(self.times, self.times * self.moved)


@dataclasses.dataclass(frozen=True)
class Account:
    """All that a run of a program starts.

    Attributes:
        launches: The instructions that start something, in their order.
        floor: The bytes of the parameters that it uses and of its result, each once.
    """

    launches: tuple[Launch, ...]
    floor: int

    @property
    def cost(self) -> Cost:
        """The cost of a run."""
        return _total(self.launches)


def account_of(text: str, unlikely: str | None = None) -> Account:
    """Returns all that a run of an optimised program starts.

    Args:
        text: The text of ``compiled.as_text()``.
        unlikely: A part of the scopes of launches. A branch of a conditional that has such a launch
            does not count, if another branch has none.

    Raises:
        ValueError: XLA does not say how often a loop runs, or the text is not a program.
    """
    program = hlo.parse(text)
    entry = program.computations[program.entry]
    used = {name for each in entry.values() for name in each.operands}
    parameters = [each for each in entry.values() if each.opcode == "parameter"]
    read = sum(each.bytes for each in parameters if each.name in used)
    launches = tuple(_launches(program, program.entry, 1, unlikely))
    return Account(launches, read + _root(program, program.entry).bytes)


def _launches(program: Program, name: str, times: int, unlikely: str | None) -> Iterator[Launch]:
    """Yields the launches of a computation that runs ``times`` times."""
    for each in program.computations[name].values():
        if each.opcode == "while":
            if ANY_ORDER in each.rest and not _ROUNDS.search(each.rest):
                yield from _launches(program, each.attribute("condition"), times, unlikely)
                moved = np.dtype(bool).itemsize
                yield Launch(each.name, "copy of a predicate", moved, times, each.scope)
                continue
            rounds = times * _rounds(each)
            for called in _called(each):
                yield from _launches(program, called, rounds, unlikely)
        elif each.opcode == "conditional":
            predicate = program.computations[name][each.operands[0]]
            yield Launch(each.name, "copy of a predicate", predicate.bytes, times, each.scope)
            branches = [[*_launches(program, x, times, unlikely)] for x in _called(each)]
            if ANY_ORDER in each.rest:
                yield from min(branches, key=lambda branch: _total(branch).launches)
            else:
                yield from _counted(branches, unlikely)
        elif each.opcode == "call":
            for called in _called(each):
                yield from _launches(program, called, times, unlikely)
        elif each.opcode not in _NO_LAUNCH and not each.opcode.endswith(_WAITS):
            yield _launch(program, each, times)


def _rounds(loop: Instruction) -> int:
    known = _ROUNDS.search(loop.rest)
    if known is None:
        raise ValueError(f"XLA does not say how often the loop {loop.scope or loop.name} runs")
    return int(known[1])


def _counted(branches: Sequence[Sequence[Launch]], unlikely: str | None) -> Sequence[Launch]:
    """Returns the launches of the branch that counts."""
    likely = [
        branch
        for branch in branches
        if unlikely is None or not any(unlikely in each.scope for each in branch)
    ]
    return max(likely or branches, key=lambda branch: _total(branch).launches)


def _total(launches: Sequence[Launch]) -> Cost:
    return sum((each.cost for each in launches), _NOTHING)


def _called(instruction: Instruction) -> list[str]:
    """Returns the computations that a loop, a conditional or a call runs."""
    branches = _BRANCHES.search(instruction.rest)
    names = [instruction.attribute(kind) for kind in _CALLED]
    listed = re.findall(r"[\w.-]+", branches[1]) if branches else []
    return [*(name for name in names if name), *listed]


def _launch(program: Program, instruction: Instruction, times: int) -> Launch:
    """Returns the launch of an instruction."""
    if instruction.opcode.endswith(_START):  # Its result is a tuple of operands, result, and more.
        opcode = instruction.opcode.removesuffix(_START)
        result = _elements(instruction.result)[1]
        instruction = dataclasses.replace(instruction, opcode=opcode, result=result)
    operands = range(len(instruction.operands))
    moved = _written(program, instruction) + sum(_read(program, instruction, n) for n in operands)
    return Launch(instruction.name, _code(program, instruction), moved, times, instruction.scope)


def _code(program: Program, instruction: Instruction) -> str:
    if instruction.target == _PALLAS and (kernel := _KERNEL.search(instruction.rest)):
        return kernel[1]
    fused = program.computations.get(instruction.attribute("calls"), {}).values()
    has_sort = any(each.opcode == "sort" for each in fused)
    return instruction.target or ("sort" if has_sort else instruction.opcode)


def _elements(result: str) -> list[str]:
    """Returns the types of the elements of a tuple, which may be tuples."""
    elements, depth = [""], 0
    for letter in result.removeprefix("(").removesuffix(")"):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            elements.append("")
        else:
            elements[-1] += letter
    return [each.strip() for each in elements]


def _root(program: Program, computation: str) -> Instruction:
    root = program.root(computation)
    if root is None:
        raise ValueError(f"the computation {computation} has no result")
    return root


def _read(program: Program, instruction: Instruction, number: int) -> int:
    """Returns the bytes that an instruction reads of an operand."""
    name = instruction.operands[number]
    whole = program.computations[instruction.computation][name].bytes
    fused = instruction.attribute("calls") if instruction.opcode == "fusion" else ""
    if fused:
        inside = program.computations[fused].values()
        parameter = next(each for each in inside if each.parameter == number)
        return min(whole, _read_inside(program, parameter, whole))
    return min(whole, _picked(program, instruction, number == 0, whole))


def _read_inside(program: Program, value: Instruction, whole: int) -> int:
    """Returns the bytes that a fusion reads of a value."""
    if value.is_root:
        return whole
    total = 0
    for user in program.computations[value.computation].values():
        if value.name not in user.operands:
            continue
        if user.opcode in _SAME:
            total += _read_inside(program, user, whole)
        else:
            total += _picked(program, user, user.operands[0] == value.name, whole)
    return total


def _picked(program: Program, user: Instruction, is_first: bool, whole: int) -> int:
    """Returns the bytes that an instruction reads of its first operand, or of another."""
    if not is_first:
        return whole
    if user.opcode in {"slice", "dynamic-slice"}:
        return user.bytes
    if user.opcode == "gather":
        return _gathered(user)
    if user.opcode == "scatter":
        return _scattered(program, user)
    if user.opcode == "dynamic-update-slice":
        return 0  # XLA updates the operand in place, or copies it first.
    return whole


def _gathered(gather: Instruction) -> int:
    (result,) = gather.shapes
    sizes = _SLICE_SIZES.search(gather.rest)
    length = math.prod(_numbers(sizes[1])) if sizes else 1
    return _in_sectors(result, length)


def _scattered(program: Program, scatter: Instruction) -> int:
    """Returns the bytes at which a scatter updates its first operand, in place."""
    window = _WINDOW.search(scatter.rest)
    if len(scatter.shapes) > 1 or window is None:
        return scatter.bytes
    (updates,) = program.computations[scatter.computation][scatter.operands[-1]].shapes
    return _in_sectors(updates, math.prod(updates.dimensions[n] for n in _numbers(window[1])))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _in_sectors(shape: hlo.Shape, length: int) -> int:
    """Returns the bytes of the sectors of an array whose runs of ``length`` elements lie apart."""
    sectors = -(-length * shape.width // _SECTOR)
    return shape.elements // max(1, length) * sectors * _SECTOR


def _written(program: Program, instruction: Instruction) -> int:
    """Returns the bytes that an instruction writes."""
    if instruction.opcode == "fusion" and (fused := instruction.attribute("calls")):
        return _written_by(program, _root(program, fused))
    return _written_by(program, instruction)


def _written_by(program: Program, instruction: Instruction) -> int:
    """Returns the bytes that an instruction writes, alone or as the root of a fusion."""
    known = program.computations[instruction.computation]
    if instruction.opcode == "tuple":
        return sum(_written_by(program, known[name]) for name in instruction.operands)
    if instruction.opcode in _SAME:
        return _written_by(program, known[instruction.operands[0]])
    if instruction.opcode == "dynamic-update-slice":
        return known[instruction.operands[1]].bytes
    if instruction.opcode == "scatter":
        return min(instruction.bytes, _scattered(program, instruction))
    return instruction.bytes
