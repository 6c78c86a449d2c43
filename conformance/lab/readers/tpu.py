"""Reads a program that XLA optimised for a TPU, under the guarantee ``portable``.

A TPU has no float64: XLA makes two float32 of each. It approximates functions of floats, rounds the
factors of a product of matrices to bfloat16, and adds floats in an order of its own. So a portable
program there has only integers in all these operations. Floats may be moved, compared and chosen.
The functions take the text of ``compiled.as_text()``.

Two kinds of sums of floats are right in every order. A bound of the errors follows the sums of the
scope ``in_any_order``, which are the magnitudes of bounds: ``bounded_sums`` returns them. And a sum
of whole numbers below 2**24 is exact. To find these, ``faults`` follows each value to its source,
through fusions, calls and loops, with two values, whole and unknown: an abstract interpretation
(Cousot and Cousot, POPL 1977). Of

    %masks = f32[256]{0} reduce(%choice, %zero), dimensions={1}, to_apply=%add.1
    %scores = f32[64,64]{1,0} convolution(%q, %k), dim_labels=bf_io->bf

where ``%choice`` selects constants that are whole numbers, it returns ``["convolution to
f32[64,64]: a product of floats"]``.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import TypeAlias

from conformance.lab.readers.hlo import APPROXIMATE, ROUNDED_IN_FLOAT64
from impl._core.numerics import ANY_ORDER
from impl._reading import hlo
from impl._reading.hlo import Instruction

#: An instruction and the index of one of its results, for a result that is a tuple.
_Value: TypeAlias = tuple[Instruction, int]

_FLOAT = re.compile(r"(?:bf16|f16|f32|f64|c64|c128|f8\w+)$")
_FLOAT64 = frozenset({"f64", "c128"})
#: XLA makes a convolution of a product of matrices for a TPU.
_PRODUCTS = frozenset({"dot", "convolution"})
#: The operations that combine terms in an order of their own.
_FOLDS = frozenset({"reduce", "reduce-window", "scatter", "all-reduce", "reduce-scatter"})
#: The arithmetic of floats that rounds each result once, but may flush subnormals.
_ARITHMETIC = frozenset({"add", "subtract", "multiply"})
#: The operations whose results are whole numbers if their operands are.
_CLOSED = frozenset(
    {
        *("add", "subtract", "multiply", "maximum", "minimum", "concatenate", "pad", "negate"),
        *("abs", "broadcast", "reshape", "transpose", "copy", "bitcast", "slice", "reverse"),
        *("copy-start", "copy-done", "reduce", "clamp"),
    }
)
#: The operations of which the first operand decides; the other operands are indices.
_MOVES = frozenset({"dynamic-slice", "gather"})
_ROUNDINGS = frozenset({"round-nearest-even", "round-nearest-afz", "floor", "ceil", "sign"})
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)\b")


def faults(text: str) -> list[str]:
    """Returns the instructions whose results a TPU computes in its own way, each once."""
    return list(dict.fromkeys(_faults(_Reader(hlo.parse(text)))))


def bounded_sums(text: str) -> list[str]:
    """Returns the sums of floats that the order rounds and whose errors have a bound, each once."""
    reader = _Reader(hlo.parse(text))
    rounded = (each for each in reader.program if _floats(each) and reader.rounds(each))
    return list(dict.fromkeys(_named(each) for each in rounded if ANY_ORDER in each.rest))


def arithmetic(text: str) -> dict[str, int]:
    """Returns the number of each operation that rounds a float by itself.

    IEEE 754 fixes their results, except where a TPU flushes a subnormal.
    """
    named = (
        each.opcode for each in hlo.parse(text) if each.opcode in _ARITHMETIC and _floats(each)
    )
    return dict(sorted(collections.Counter(named).items()))


def counts(text: str) -> dict[str, int]:
    """Returns the number of operations of a program, and of its fusions."""
    opcodes = collections.Counter(each.opcode for each in hlo.parse(text))
    return {"operations": opcodes.total(), "fusions": opcodes["fusion"]}


def _faults(reader: _Reader) -> Iterator[str]:
    for each in reader.program:
        kinds = _floats(each)
        if kinds & _FLOAT64:
            yield f"{_named(each)}: it is of float64"
        if not kinds:
            continue
        if each.opcode in APPROXIMATE | ROUNDED_IN_FLOAT64 | {"remainder"}:
            yield f"{_named(each)}: a function of the TPU"
        elif each.opcode in _PRODUCTS:
            yield f"{_named(each)}: a product of floats"
        elif reader.rounds(each) and ANY_ORDER not in each.rest:
            yield f"{_named(each)}: sums are rounded in an order of the TPU"


class _Reader:
    """A program, and the sources of its values."""

    def __init__(self, program: hlo.Program) -> None:
        self.program = program
        self.known: dict[tuple[str, str, int], bool] = {}
        self.callers: dict[str, list[Instruction]] = {}
        for each in program:
            for key in ("calls", "body", "condition", "to_apply"):
                if name := each.attribute(key):
                    self.callers.setdefault(name, []).append(each)
            for name in hlo.branches(each):
                self.callers.setdefault(name, []).append(each)

    def rounds(self, instruction: Instruction) -> bool:
        """Returns whether an instruction rounds sums or products in an order of the TPU."""
        if instruction.opcode == "select-and-scatter":
            return True
        if instruction.opcode not in _FOLDS:
            return False
        combines = self.combines(instruction)
        is_exact = "multiply" not in combines and self.is_whole((instruction, 0))
        return not combines.isdisjoint({"add", "multiply"}) and not is_exact

    def combines(self, fold: Instruction) -> set[str]:
        """Returns the operations by which a fold combines two numbers."""
        body = self.program.computations.get(fold.attribute("to_apply"), {})
        return {each.opcode for each in body.values()}

    def is_whole(self, value: _Value) -> bool:
        """Returns whether the floats of a value are whole numbers."""
        instruction, index = value
        key = (instruction.computation, instruction.name, index)
        if key not in self.known:
            self.known[key] = True  # A loop returns to itself, and changes nothing there.
            sources = list(self._sources(instruction, index))
            self.known[key] = all(each is not None and self.is_whole(each) for each in sources)
        return self.known[key]

    def _sources(self, instruction: Instruction, index: int) -> Iterator[_Value | None]:
        """Yields the values that have to be whole numbers so that a value is; None is not."""
        opcode = instruction.opcode
        if opcode in _ROUNDINGS or opcode == "iota":
            return
        if opcode == "constant":
            yield from () if _has_whole_numbers(instruction) else (None,)
        elif opcode == "convert":
            (operand,) = self._operands(instruction)
            yield from [(operand, 0)] if _floats(operand) else []
        elif opcode in _CLOSED:
            yield from ((each, 0) for each in self._operands(instruction))
        elif opcode == "select":
            yield from ((each, 0) for each in self._operands(instruction)[1:])
        elif opcode in _MOVES:
            yield self._operands(instruction)[0], 0
        elif opcode == "tuple":
            yield self._operands(instruction)[index], 0
        elif opcode == "get-tuple-element":
            yield self._operands(instruction)[0], int(instruction.attribute("index"))
        elif opcode == "parameter":
            yield from self._of_parameter(instruction, index)
        elif opcode in {"fusion", "call"}:
            yield self._root(
                instruction.attribute("calls" if opcode == "fusion" else "to_apply"), index
            )
        elif opcode == "while":
            yield self._operands(instruction)[0], index
            yield self._root(instruction.attribute("body"), index)
        elif opcode == "conditional":
            yield from (self._root(name, index) for name in hlo.branches(instruction))
        else:
            yield None

    def _of_parameter(self, parameter: Instruction, index: int) -> Iterator[_Value | None]:
        callers = self.callers.get(parameter.computation, [])
        position = parameter.parameter or 0
        if not callers:  # a parameter of the whole program
            yield None
        for caller in callers:
            operands = self._operands(caller)
            branches = hlo.branches(caller)
            if caller.opcode == "while":
                yield operands[0], index
                yield self._root(caller.attribute("body"), index)
            elif branches:
                yield operands[1 + branches.index(parameter.computation)], index
            elif caller.opcode in {"fusion", "call"}:
                yield operands[position], index
            else:
                yield None

    def _operands(self, instruction: Instruction) -> list[Instruction]:
        computation = self.program.computations[instruction.computation]
        return [computation[name] for name in instruction.operands if name in computation]

    def _root(self, computation: str, index: int) -> _Value | None:
        root = self.program.root(computation)
        return None if root is None else (root, index)


def _floats(instruction: Instruction) -> set[str]:
    """Returns the types of floats of the result of an instruction."""
    return {shape.dtype for shape in instruction.shapes if _FLOAT.match(shape.dtype)}


def _has_whole_numbers(constant: Instruction) -> bool:
    """Returns whether the text of a constant has whole numbers alone; XLA shortens long ones."""
    text = constant.rest.partition("), ")[0].removesuffix(")")
    numbers = [float(each) for each in _NUMBER.findall(re.sub(r"/\*.*?\*/", "", text))]
    return "..." not in text and bool(numbers) and all(each.is_integer() for each in numbers)


def _named(instruction: Instruction) -> str:
    shapes = ", ".join(map(str, instruction.shapes))
    return f"{instruction.opcode} to {shapes}"
