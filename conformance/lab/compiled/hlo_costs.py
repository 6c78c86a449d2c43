"""Counts what a run of XLA's optimised program starts and moves, from the program's text.

XLA states no cost of a program for a GPU that is absent. Here a launch reads all its operands and
writes its result, with these exceptions, which hold inside of fusions too: a slice reads what it
keeps, a gather reads whole sectors of 32 bytes for each of its slices, and an operand that is
updated in place moves where it is updated, for a scatter in whole sectors too. A kernel of Pallas,
which says nothing of its reads, reads each operand once; its loops are counted in its PTX.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from conformance.lab.compiled import hlo_loops, hlo_program, sorts
from conformance.lab.compiled.hlo_program import Instruction, Program

Kind: TypeAlias = Literal["kernel", "Pallas", "copy", "library", "CUB", "XLA's sort"]

_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_CALLED = ("condition", "body", "to_apply", "true_computation", "false_computation")
_SLICE_SIZES = re.compile(r"\bslice_sizes=\{([\d,]*)\}")
_WINDOW = re.compile(r"\bupdate_window_dims=\{([\d,]*)\}")
_GRID = re.compile(r"\bgrid_[xyz] = (\d+)")
_WARPS = re.compile(r"\bnum_warps = (\d+)")
_KERNEL = re.compile(r'\bname = "([^"]*)"')
_PALLAS = "__gpu$xla.gpu.triton"
#: What a program contains without a launch.
_NO_LAUNCH = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
        *("opt-barrier", "partition-id", "replica-id", "add-dependency"),
    }
)
#: The ends of the names of an operation that is started, and of what waits for it.
_START = "-start"
_WAITS = ("-done", "-update")
#: What hands its operand on, so that the reads of its users count.
_SAME = frozenset({"bitcast", "reshape"})
#: The bytes that a GPU reads at least.
_SECTOR = 32


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
class Launch:
    """An instruction that starts something.

    Attributes:
        name: Its name in the program.
        kind: What it starts.
        cost: The cost of each time.
        times: How often the loops around it run it.
        scope: The operation of JAX that it was made of.
        programs: The programs of a Pallas kernel's grid; None for others.
        warps: The warps of each program; None for others.
        note: How it was counted, if that is not plain.
    """

    name: str
    kind: Kind
    cost: Cost
    times: int = 1
    scope: str = ""
    programs: int | None = None
    warps: int | None = None
    note: str = ""

    @property
    def total(self) -> Cost:
        """The cost of all times."""
        return self.cost * self.times


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop of a program.

    Attributes:
        name: Its name in the program.
        scope: The operation of JAX that it was made of.
        count: Its rounds each time that it starts; None if nothing bounds them.
        is_exact: Whether ``count`` is no bound but the number.
    """

    name: str
    scope: str
    count: int | None
    is_exact: bool


@dataclasses.dataclass(frozen=True)
class Conditional:
    """A conditional of a program, and what its branches cost.

    Attributes:
        name: Its name in the program.
        scope: The operation of JAX that it was made of.
        counted: The cost of the branch that counts.
        others: The costs of the other branches.
    """

    name: str
    scope: str
    counted: Cost
    others: tuple[Cost, ...]


@dataclasses.dataclass(frozen=True)
class Account:
    """All that a run of a program starts.

    Attributes:
        launches: The instructions that start something, in their order.
        loops: The loops, in their order.
        conditionals: The conditionals, in their order.
        floor: The bytes of the parameters that it uses and of its result, each once.
    """

    launches: tuple[Launch, ...]
    loops: tuple[Loop, ...]
    conditionals: tuple[Conditional, ...]
    floor: int

    @property
    def cost(self) -> Cost:
        """The cost of a run."""
        return sum((each.total for each in self.launches), _NOTHING)

    @property
    def unbounded(self) -> tuple[Loop, ...]:
        """The loops that count once, because nothing bounds them."""
        return tuple(loop for loop in self.loops if loop.count is None)


def cost(text: str) -> Cost:
    """Returns the cost of a run of an optimised program.

    Args:
        text: The text of ``compiled.as_text()``.

    Raises:
        ValueError: Nothing bounds the rounds of a loop.
    """
    account = account_of(text)
    if account.unbounded:
        names = ", ".join(loop.scope or loop.name for loop in account.unbounded)
        raise ValueError(f"nothing bounds the rounds of the loops {names}")
    return account.cost


def account_of(
    text: str, bounds: Mapping[str, int] | None = None, unlikely: Sequence[str] = ()
) -> Account:
    """Returns all that a run of an optimised program starts.

    The rounds of a loop count each. Of the branches of a conditional, the one with the most
    launches counts, unless it is unlikely.

    Args:
        text: The text of ``compiled.as_text()``.
        bounds: The rounds of loops that the program does not bound, by a part of their scope.
        unlikely: Parts of the scopes of launches. A branch that has one does not count, if another
            has none.
    """
    program = hlo_program.parse(text)
    walk = _Walk(program, bounds or {}, tuple(unlikely), [], [])
    launches = tuple(walk.launches(program.entry, 1))
    entry = program.computations[program.entry]
    used = {name for each in entry for name in each.operands}
    read = sum(each.bytes for each in entry if each.opcode == "parameter" and each.name in used)
    floor = read + program.root(program.entry).bytes
    return Account(launches, tuple(walk.loops), tuple(walk.conditionals), floor)


@dataclasses.dataclass(frozen=True)
class _Walk:
    """A walk through a program; the first attributes are arguments of ``account_of``."""

    program: Program
    bounds: Mapping[str, int]
    unlikely: tuple[str, ...]
    loops: list[Loop]
    conditionals: list[Conditional]

    def launches(self, name: str, times: int) -> Iterator[Launch]:
        """Yields the launches of a computation that runs ``times`` times."""
        for each in self.program.computations[name]:
            if each.opcode == "while":
                loop = _loop(self.program, name, each, self.bounds)
                self.loops.append(loop)
                rounds = 1 if loop.count is None else loop.count
                for called in _called(each):
                    yield from self.launches(called, times * rounds)
            elif each.opcode == "conditional":
                yield from self._branch(name, each, times)
            elif each.opcode == "call":
                for called in _called(each):
                    yield from self.launches(called, times)
            elif each.opcode not in _NO_LAUNCH and not each.opcode.endswith(_WAITS):
                yield dataclasses.replace(_launch(self.program, name, each), times=times)

    def _branch(self, name: str, conditional: Instruction, times: int) -> Iterator[Launch]:
        """Yields the launches of the branch that counts, after the copy of the predicate."""
        predicate = self.program.instruction(name, conditional.operands[0]).bytes
        copied, scope = Cost(1, predicate), conditional.scope
        yield Launch(conditional.name, "copy", copied, times, scope, note="the predicate")
        branches = [list(self.launches(called, times)) for called in _called(conditional)]
        likely = [branch for branch in branches if not self._is_unlikely(branch)]
        taken = max(likely or branches, key=lambda branch: _sum(branch).launches)
        others = tuple(_sum(branch) for branch in branches if branch is not taken)
        self.conditionals.append(Conditional(conditional.name, scope, _sum(taken), others))
        yield from taken

    def _is_unlikely(self, branch: Iterable[Launch]) -> bool:
        return any(part in each.scope for part in self.unlikely for each in branch)


def _sum(launches: Iterable[Launch]) -> Cost:
    return sum((each.total for each in launches), _NOTHING)


def _loop(program: Program, name: str, loop: Instruction, bounds: Mapping[str, int]) -> Loop:
    rounds = hlo_loops.rounds(program, name, loop)
    count = rounds.count
    if count is None:
        count = next((bound for part, bound in bounds.items() if part in loop.scope), None)
    return Loop(loop.name, loop.scope, count, rounds.is_exact)


def _called(instruction: Instruction) -> list[str]:
    """Returns the computations that a loop, a conditional or a call runs."""
    branches = _BRANCHES.search(instruction.rest)
    names = [instruction.attribute(kind) for kind in _CALLED]
    listed = re.findall(r"[\w.-]+", branches[1]) if branches else []
    return [*(name for name in names if name), *listed]


def _launch(program: Program, computation: str, instruction: Instruction) -> Launch:
    """Returns the launch of an instruction, once."""
    if instruction.opcode.endswith(_START):  # It gives its operands, its result, and more.
        instruction = dataclasses.replace(
            instruction,
            opcode=instruction.opcode.removesuffix(_START),
            result=hlo_program.elements(instruction.result)[1],
        )
    name, scope = instruction.name, instruction.scope
    target = re.search(r'custom_call_target="([^"]+)"', instruction.rest)
    sort = sorts.of(program, computation, instruction)
    if sort is not None:
        cost_of_sort = Cost(sort.launches, sort.moved)
        return Launch(name, sort.kind, cost_of_sort, scope=scope, note=sort.note)
    moved = _written(program, computation, instruction) + sum(
        _read(program, computation, instruction, number)
        for number in range(len(instruction.operands))
    )
    cost_of_one = Cost(1, moved)
    if target and target[1] == _PALLAS:
        grid, warps = _GRID.findall(instruction.rest), _WARPS.search(instruction.rest)
        kernel = _KERNEL.search(instruction.rest)
        programs = 1
        for length in grid:
            programs *= int(length)
        count = int(warps[1]) if warps else None
        note = kernel[1] if kernel else ""
        return Launch(name, "Pallas", cost_of_one, 1, scope, programs, count, note)
    kind: Kind = "library" if target else "copy" if instruction.opcode == "copy" else "kernel"
    return Launch(name, kind, cost_of_one, scope=scope, note=target[1] if target else "")


def _read(program: Program, computation: str, instruction: Instruction, number: int) -> int:
    """Returns the bytes that an instruction reads of an operand."""
    whole = program.instruction(computation, instruction.operands[number]).bytes
    if instruction.opcode == "fusion" and instruction.calls:
        parameter = program.parameter(instruction.calls, number)
        return min(whole, _read_inside(program, instruction.calls, parameter, whole))
    if instruction.opcode == "scatter" and number == 0:
        return min(whole, _scattered(program, computation, instruction))
    return min(whole, _picked(instruction, number == 0, whole))


def _read_inside(program: Program, fused: str, value: Instruction, whole: int) -> int:
    """Returns the bytes that a fusion reads of a value."""
    if value.is_root:
        return whole
    total = 0
    for user in program.users(fused, value.name):
        first = user.operands[0] == value.name
        if user.opcode in _SAME:
            total += _read_inside(program, fused, user, whole)
        elif user.opcode == "scatter" and first:
            total += _scattered(program, fused, user)
        else:
            total += _picked(user, first, whole)
    return total


def _picked(user: Instruction, is_first: bool, whole: int) -> int:
    """Returns the bytes that an instruction reads of one of its operands."""
    if not is_first:
        return whole
    if user.opcode in {"slice", "dynamic-slice"}:
        return user.bytes
    if user.opcode == "gather":
        return _gathered(user)
    if user.opcode == "dynamic-update-slice":
        return 0  # XLA updates in place, or copies before.
    return whole


def _gathered(gather: Instruction) -> int:
    (result,) = hlo_program.shapes(gather.result)
    sizes = _SLICE_SIZES.search(gather.rest)
    length = 1
    for part in (sizes[1] if sizes else "").split(","):
        length *= int(part) if part else 1
    sectors = -(-length * result.width // _SECTOR)
    return result.elements // max(1, length) * sectors * _SECTOR


def _scattered(program: Program, computation: str, scatter: Instruction) -> int:
    """Returns the bytes at which a scatter updates its first operand, in place."""
    arrays = hlo_program.shapes(scatter.result)
    window = _WINDOW.search(scatter.rest)
    if len(arrays) > 1 or window is None:
        return scatter.bytes
    (updates,) = hlo_program.shapes(program.instruction(computation, scatter.operands[-1]).result)
    length = 1
    for dimension in window[1].split(","):
        length *= updates.dimensions[int(dimension)] if dimension else 1
    sectors = -(-length * updates.width // _SECTOR)
    return updates.elements // max(1, length) * sectors * _SECTOR


def _written(program: Program, computation: str, instruction: Instruction) -> int:
    """Returns the bytes that an instruction writes."""
    if instruction.opcode == "fusion" and instruction.calls:
        return _written_inside(program, instruction.calls, program.root(instruction.calls))
    return _written_by(program, computation, instruction)


def _written_inside(program: Program, fused: str, root: Instruction) -> int:
    parts = [program.instruction(fused, name) for name in root.operands]
    if root.opcode == "tuple":
        return sum(_written_inside(program, fused, part) for part in parts)
    if root.opcode in _SAME:
        return _written_inside(program, fused, parts[0])
    return _written_by(program, fused, root)


def _written_by(program: Program, computation: str, instruction: Instruction) -> int:
    if instruction.opcode == "dynamic-update-slice":
        return program.instruction(computation, instruction.operands[1]).bytes
    if instruction.opcode == "scatter":
        return min(instruction.bytes, _scattered(program, computation, instruction))
    return instruction.bytes
