"""Counts the arithmetic of a run of XLA's optimised program: of float64, and of products of int8.

A GPU with little float64 takes longest over these operations, wherever their operands lie. The
launches of a run, and how often loops repeat them, are those that ``launches`` counts. A fusion has
the operations of its computation, an operation on elements one for each element, a product of
matrices one for each pair of factors, and a reduction one for each term and each operation of its
function. Moves, selections and changes of signs are no arithmetic. For a product in float64

    %dot = f64[64,64]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}

with ``a`` of the shape (64, 32) it counts 64 * 64 * 32 = 131,072 operations of float64.
"""

from __future__ import annotations

import dataclasses
import math
import re

from conformance.lab.compiled import launches
from impl._reading import hlo
from impl._reading.hlo import Instruction, Program

#: The operations on elements that units for floats compute.
_ARITHMETIC = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "remainder", "sqrt", "rsqrt", "power"),
        *("maximum", "minimum", "clamp", "compare", "convert", "floor", "ceil", "is-finite"),
        *("round-nearest-even", "round-nearest-afz", "exponential", "log", "sign"),
    }
)
#: Operations that apply a function to the elements of their first operand or of a window.
_OF_TERMS = frozenset({"reduce", "scatter", "reduce-window"})
_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_SIZE = re.compile(r"\bwindow=\{size=([\dx]+)")


@dataclasses.dataclass(frozen=True)
class Work:
    """The arithmetic of a run.

    Attributes:
        float64: The operations of float64. A product and the sum that it is added to are one.
        int8: The products of int8 in products of matrices, each with its sum.
    """

    float64: int = 0
    int8: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.float64 + other.float64, self.int8 + other.int8)

    def __mul__(self, times: int) -> Work:
        return Work(self.float64 * times, self.int8 * times)


def work_of(text: str) -> Work:
    """Returns the arithmetic of a run of an optimised program.

    Args:
        text: The text of ``compiled.as_text()``.

    Raises:
        ValueError: XLA does not say how often a loop runs, or a library or a convolution computes
            in float64.
    """
    program = hlo.parse(text)
    named = {each.name: each for each in program}
    total = Work()
    for launch in launches.account_of(text).launches:
        if launch.name in named:
            total += _work(program, named[launch.name]) * launch.times
    return total


def _work(program: Program, each: Instruction) -> Work:
    """Returns the arithmetic of one instruction."""
    inside = program.computations[each.computation]
    operands = [inside[name] for name in each.operands if name in inside]
    dtypes = {shape.dtype for value in (each, *operands) for shape in value.shapes}
    if each.opcode in {"fusion", "call"}:
        called = each.attribute("calls") or each.attribute("to_apply")
        return _sum(program, called)
    if each.opcode == "dot":
        return _of_product(each, operands[0])
    if each.opcode in _OF_TERMS:
        return _sum(program, each.attribute("to_apply")) * _terms(each, operands)
    if each.opcode in {"custom-call", "convolution"} and "f64" in dtypes:
        raise ValueError(f"{each.target or each.opcode} computes in float64, uncounted")
    if each.opcode in _ARITHMETIC and "f64" in dtypes:
        return Work(float64=max(shape.elements for shape in each.shapes))
    return Work()


def _sum(program: Program, computation: str) -> Work:
    instructions = program.computations.get(computation, {}).values()
    return sum((_work(program, each) for each in instructions), Work())


def _of_product(product: Instruction, left: Instruction) -> Work:
    contracted = _CONTRACTED.search(product.rest)
    positions = [int(n) for n in contracted[1].split(",") if n] if contracted else []
    (shape,) = left.shapes
    pairs = product.shapes[0].elements * math.prod(shape.dimensions[n] for n in positions)
    if shape.dtype == "s8":
        return Work(int8=pairs)
    return Work(float64=pairs if product.shapes[0].dtype == "f64" else 0)


def _terms(each: Instruction, operands: list[Instruction]) -> int:
    """Returns how often a reduction, a scatter or a window sum applies its function."""
    if each.opcode == "scatter":
        return operands[-1].shapes[0].elements
    if each.opcode == "reduce-window":
        size = _SIZE.search(each.rest)
        return each.shapes[0].elements * math.prod(map(int, size[1].split("x")) if size else ())
    return operands[0].shapes[0].elements
