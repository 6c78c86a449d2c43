"""Parses the text of XLA's optimised program: computations, instructions, operands and sizes."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

_INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.-]+) = (\(.*?\)|[^\s(]\S*) ([a-z][\w-]*)\((.*)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_TYPE = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\]")
_CALLS = re.compile(r"\bcalls=%?([\w.-]+)")
_PART = re.compile(r"%([\w.-]+)#(\d+)")
#: Stands between the name of a result and the number of a part.
_MARK = ".part-"
_SCOPE = re.compile(r'op_name="([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of a computation.

    Attributes:
        name: Its name.
        result: The type of its result.
        opcode: What it does.
        rest: The text after the opening bracket: operands and attributes.
        is_root: Whether it gives the result of its computation.
    """

    name: str
    result: str
    opcode: str
    rest: str
    is_root: bool = False

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of its operands. A constant and a parameter have none."""
        if self.opcode in {"constant", "parameter"}:
            return ()
        return tuple(re.findall(r"%([\w.-]+)", self.rest.partition(")")[0]))

    @property
    def literal(self) -> str:
        """The text between its brackets: the value of a constant, the number of a parameter."""
        return self.rest.partition(")")[0]

    @property
    def scope(self) -> str:
        """The name of the operation of JAX that it was made of; empty if XLA does not say."""
        match = _SCOPE.search(self.rest)
        return match[1] if match else ""

    @property
    def calls(self) -> str | None:
        """The computation that it fuses."""
        match = _CALLS.search(self.rest)
        return match[1] if match else None

    @property
    def bytes(self) -> int:
        """The bytes of its result."""
        return size(self.result)

    def attribute(self, name: str) -> str | None:
        """Returns the number or the name that an attribute has."""
        match = re.search(rf"\b{re.escape(name)}=%?([\w.-]+)", self.rest)
        return match[1] if match else None


@dataclasses.dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        entry: The name of the computation that runs first.
        computations: The instructions of each computation.
    """

    entry: str
    computations: Mapping[str, Sequence[Instruction]]

    def instruction(self, computation: str, name: str) -> Instruction:
        """Returns an instruction by its name."""
        return self._by_name[computation][name]

    def root(self, computation: str) -> Instruction:
        """Returns the instruction that gives the result of a computation."""
        return next(each for each in self.computations[computation] if each.is_root)

    def parameter(self, computation: str, number: int) -> Instruction:
        """Returns the parameter with this number."""
        return next(
            each
            for each in self.computations[computation]
            if each.opcode == "parameter" and int(each.literal) == number
        )

    def users(self, computation: str, name: str) -> list[Instruction]:
        """Returns the instructions that have this one as an operand."""
        return [each for each in self.computations[computation] if name in each.operands]

    @functools.cached_property
    def _by_name(self) -> dict[str, dict[str, Instruction]]:
        return {
            name: {each.name: each for each in instructions}
            for name, instructions in self.computations.items()
        }


def parse(text: str) -> Program:
    """Parses a program: the text of ``compiled.as_text()``, or a file that XLA wrote.

    XLA's files have ``%loop#1`` for a part of a result, where the text has an instruction.
    """
    entry = re.search(r"^ENTRY %?([\w.-]+) ", text, re.MULTILINE)
    computations: dict[str, list[Instruction]] = {}
    for computation, each in instructions(text):
        current = computations.setdefault(computation, [])
        current.extend(_parts(each, current))
        current.append(each)
    return Program(entry[1] if entry else "", computations)


def instructions(text: str) -> Iterator[tuple[str, Instruction]]:
    """Yields each instruction of a text, after the name of its computation."""
    computation = ""
    for line in text.splitlines():
        start = _COMPUTATION.match(line)
        computation = start[1] if start else computation
        match = _INSTRUCTION.match(line)
        if match:
            rest = _PART.sub(lambda part: f"%{part[1]}{_MARK}{part[2]}", match[5])
            yield computation, Instruction(match[2], match[3], match[4], rest, bool(match[1]))


def _parts(user: Instruction, before: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yields the instructions that take the parts of results that an instruction uses."""
    for name in dict.fromkeys(user.operands):
        source, mark, index = name.partition(_MARK)
        if mark and all(each.name != name for each in before):
            whole = next(each for each in before if each.name == source)
            result = elements(whole.result)[int(index)]
            yield Instruction(name, result, "get-tuple-element", f"%{source}), index={index}")


def elements(result: str) -> list[str]:
    """Returns the types of the elements of a tuple."""
    found, depth = [""], 0
    for letter in result.removeprefix("(").removesuffix(")"):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


def size(result: str) -> int:
    """Returns the bytes of a type, or of all types of a tuple."""
    return sum(shape.bytes for shape in shapes(result))


@dataclasses.dataclass(frozen=True)
class Shape:
    """The type of an array.

    Attributes:
        dtype: The name of the elements' type.
        dimensions: The sizes of its dimensions.
    """

    dtype: str
    dimensions: tuple[int, ...]

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


def shapes(result: str) -> list[Shape]:
    """Returns the arrays of a type, in their order."""
    return [
        Shape(dtype, tuple(int(length) for length in lengths.split(",") if length))
        for dtype, lengths in _TYPE.findall(result)
    ]
