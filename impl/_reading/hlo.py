"""Parses the text of a program that XLA optimised, which is called HLO.

XLA has no stable interface that gives the instructions of an executable, so its text is read, line
by line: ``compiled.as_text()``. https://openxla.org/xla/operation_semantics has the opcodes. Of

    ENTRY %main (x: f32[8]) -> f32[8] {
      %x = f32[8]{0} parameter(0)
      ROOT %y = f32[8]{0} all-reduce(%x), to_apply=%add, metadata={op_name="jit(f)/psum"}
    }

the last line is ``Instruction(name="y", result="f32[8]{0}", opcode="all-reduce", ...)`` of the
computation ``main``. Its ``operands`` are ``("x",)``, its attribute ``to_apply`` is ``add``, and
its ``scope``, the operation of JAX that it was made of, is ``jit(f)/psum``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

#: The file, line and function of a frame.
Frame: TypeAlias = tuple[str, int, str]

_INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.-]+) = (\(.*?\)|[^\s(]\S*) ([a-z][\w-]*)\((.*)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.-]+) \(.*\{$")
_TYPE = re.compile(r"\b(pred|[a-z]+\d\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")
_SCOPE = re.compile(r'\bop_name="([^"]*)"')
_TARGET = re.compile(r'\bcustom_call_target="([^"]+)"')
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")


@dataclasses.dataclass(frozen=True)
class Shape:
    """The type of an array, with the dtype as XLA writes it: ``f32``."""

    dtype: str
    dimensions: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dimensions))}]"

    @property
    def width(self) -> int:
        """The bytes of an element."""
        bits = re.search(r"\d+", self.dtype)
        return 1 if bits is None else max(1, int(bits[0]) // 8)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.dimensions)

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.width * self.elements


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of a computation, whose result it may be as the root.

    ``rest`` is the text after the opening bracket: operands and attributes.
    """

    name: str
    result: str
    opcode: str
    rest: str
    computation: str = ""
    is_root: bool = False

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of its operands."""
        return tuple(_OPERAND.findall(self.rest.partition("), ")[0]))

    @property
    def parameter(self) -> int | None:
        """The number of the parameter that it is; None if it is not a parameter."""
        return int(self.rest.partition(")")[0]) if self.opcode == "parameter" else None

    @property
    def scope(self) -> str:
        """The name of the operation of JAX that it was made of; empty if XLA does not say."""
        match = _SCOPE.search(self.rest)
        return match[1] if match else ""

    @property
    def target(self) -> str:
        """The name of the code that a custom call runs; empty for other instructions."""
        match = _TARGET.search(self.rest) if self.opcode == "custom-call" else None
        return match[1] if match else ""

    @property
    def shapes(self) -> list[Shape]:
        """The type of its result: an array, or each array of a tuple, in their order."""
        return [
            Shape(dtype, tuple(int(length) for length in lengths.split(",") if length))
            for dtype, lengths in _TYPE.findall(self.result)
        ]

    @property
    def bytes(self) -> int:
        """The bytes of its result."""
        return sum(shape.bytes for shape in self.shapes)

    def attribute(self, name: str) -> str:
        """Returns the number or the name that an attribute has; empty without it."""
        match = re.search(rf"\b{name}=%?([\w.-]+)", self.rest)
        return match[1] if match else ""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program: the instructions of each computation, by name, and the entry, which runs first."""

    entry: str
    computations: Mapping[str, Mapping[str, Instruction]]

    def __iter__(self) -> Iterator[Instruction]:
        for computation in self.computations.values():
            yield from computation.values()

    def root(self, computation: str) -> Instruction | None:
        """Returns the instruction that gives the result of a computation; None without one."""
        instructions = self.computations.get(computation, {}).values()
        return next((each for each in instructions if each.is_root), None)


def parse(text: str) -> Program:
    """Parses the text of ``compiled.as_text()``."""
    entry, computation = "", ""
    computations: dict[str, dict[str, Instruction]] = {}
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start[2]
            entry = computation if start[1] else entry
        if match := _INSTRUCTION.match(line):
            root, name, result, opcode, rest = match.groups()
            instruction = Instruction(name, result, opcode, rest, computation, bool(root))
            computations.setdefault(computation, {})[name] = instruction
    return Program(entry, computations)


def branches(instruction: Instruction) -> list[str]:
    """Returns the computations of which a conditional runs one; none of another instruction."""
    if instruction.opcode != "conditional":
        return []
    if listed := _BRANCHES.search(instruction.rest):
        return [name.strip().removeprefix("%") for name in listed[1].split(",")]
    names = (instruction.attribute(f"{word}_computation") for word in ("true", "false"))
    return [name for name in names if name]


def frames(text: str) -> dict[int, tuple[Frame, ...]]:
    """Returns the frames of each ``stack_frame_id``, innermost first.

    XLA writes four tables before the program: files, functions, lines in these, and frames, each
    with the number of the frame that called it.
    """
    table = functools.partial(_table, text)
    files = {number: entry.strip('"') for number, entry in table("FileNames").items()}
    functions = {number: entry.strip('"') for number, entry in table("FunctionNames").items()}
    locations = {}
    for number, entry in table("FileLocations").items():
        fields = _numbers(entry)
        file = files.get(fields["file_name_id"], "")
        locations[number] = file, fields["line"], functions.get(fields["function_name_id"], "")
    links = {number: _numbers(entry) for number, entry in table("StackFrames").items()}
    chains: dict[int, tuple[Frame, ...]] = {}
    for number in links:
        chain: list[Frame] = []
        current = number
        while current in links and len(chain) < len(links):
            chain.append(locations[links[current]["file_location_id"]])
            current = links[current]["parent_frame_id"] - 1  # The ids of parents start at 1.
        chains[number] = tuple(chain)
    return chains


def _table(text: str, name: str) -> dict[int, str]:
    match = re.search(rf"^{name}\n((?:\d+ .*\n)+)", text, re.MULTILINE)
    lines = match[1].splitlines() if match else []
    return {int(line.partition(" ")[0]): line.partition(" ")[2] for line in lines}


def _numbers(entry: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", entry)}
