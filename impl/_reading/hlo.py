"""Reads the program that XLA compiled: the instructions that can vary, with the user's lines.

XLA adds instructions that no equation shows, such as sums over devices, and drops others.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import spec
from impl._reading import source
from impl._reading.source import Lines

#: The file, line and function of a frame.
_Frame: TypeAlias = tuple[str, int, str]

_INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.-]+) = (\(.*?\)|[^\s(]\S*) ([a-z][\w-]*)\((.*)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_TYPE = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.-]+)")
_ATTRIBUTES = {
    name: re.compile(pattern)
    for name, pattern in {
        "apply": r"to_apply=%?([\w.-]+)",
        "target": r'custom_call_target="([^"]+)"',
        "operation": r'op_name="([^"]*)"',
        "frame": r"stack_frame_id=(\d+)",
        "vector": r"index_vector_dim=(\d+)",
        "size": r"window=\{[^}]*\bsize=([\dx]+)",
        "stride": r"window=\{[^}]*\bstride=([\dx]+)",
    }.items()
}
#: The primitive of each opcode whose equations can vary.
_PRIMITIVES: Mapping[str, str] = {
    "all-reduce": "psum",
    "all-reduce-start": "psum",
    "convolution": "conv_general_dilated",
    "dot": "dot_general",
    "reduce-scatter": "reduce_scatter",
    "rng": "rng_uniform",
    "select-and-scatter": "select_and_scatter_add",
}
#: The primitive of each scatter, by the opcode that combines an update with an element.
_SCATTERS: Mapping[str, str] = {
    "add": "scatter-add",
    "subtract": "scatter-sub",
    "multiply": "scatter-mul",
    "minimum": "scatter-min",
    "maximum": "scatter-max",
    "parameter": "scatter",
}
#: The primitive of calls of NVIDIA's libraries, by how their targets start.
_LIBRARIES: Mapping[str, str] = {
    "__cublas": "dot_general",
    "__cudnn$conv": "conv_general_dilated",
    "__cudnn$fmha": "dot_product_attention_fwd",
}
#: Targets of calls that compute nothing, or in one order. Kernels of Pallas are equations too.
_HARMLESS = (
    *("Sharding", "SPMD", "AllocateBuffer", "MoveTo", "Annotate", "TopK", "PadToStatic"),
    *("SliceToDynamic", "__cub$", "xla.gpu.ext.cub_sort", "__gpu$xla.gpu.triton"),
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction that a row may be about.

    Attributes:
        primitive: The primitive of JAX that it belongs to, or the target of a call.
        facts: Its facts.
        lines: The lines of source that it comes from.
        shapes: The types of its result.
    """

    primitive: str
    facts: Mapping[str, spec.FactValue]
    lines: Lines
    shapes: str


@dataclasses.dataclass(frozen=True)
class _Line:
    name: str
    result: str
    opcode: str
    rest: str
    computation: str
    is_root: bool

    def attribute(self, name: str) -> str:
        match = _ATTRIBUTES[name].search(self.rest)
        return match[1] if match else ""

    @property
    def dtype(self) -> str:
        match = _TYPE.search(self.result)
        return match[1] if match else ""

    @property
    def operands(self) -> list[str]:
        return _OPERAND.findall(self.rest.partition("), ")[0])


def instructions(text: str, *, timed_kernels: bool) -> tuple[list[Instruction], int]:
    """Returns the instructions of a compiled program that rows may be about, and the number of all.

    Args:
        text: The text of ``compiled.as_text()``.
        timed_kernels: Whether XLA may have picked kernels by timing.
    """
    lines = list(_lines(text))
    frames = _frames(text)
    found = []
    for line in lines:
        primitive = _primitive(line, lines)
        if primitive is not None:
            facts = _facts(line, lines) | {"timed_kernels": timed_kernels}
            place = source.lines_of(frames.get(int(line.attribute("frame") or 0), ()))
            shapes = " ".join(f"{dtype}[{sizes}]" for dtype, sizes in _TYPE.findall(line.result))
            found.append(Instruction(primitive, facts, place, shapes))
    return found, len(lines)


def _lines(text: str) -> Iterator[_Line]:
    computation = ""
    for row in text.splitlines():
        start = _COMPUTATION.match(row)
        if start:
            computation = start[1]
        match = _INSTRUCTION.match(row)
        if match:
            yield _Line(match[2], match[3], match[4], match[5], computation, bool(match[1]))


def _primitive(line: _Line, lines: list[_Line]) -> str | None:
    """Returns the primitive that an instruction belongs to; None if no row can be about it."""
    if line.opcode == "scatter":
        root = next(other for other in _combine(line, lines) if other.is_root)
        return _SCATTERS.get(root.opcode, "scatter" if _ignores_update(line, lines) else "reduce")
    if line.opcode != "custom-call":
        return _PRIMITIVES.get(line.opcode)
    target = line.attribute("target")
    if target.startswith(_HARMLESS):
        return None
    for start, primitive in _LIBRARIES.items():
        if target.startswith(start):
            backward = primitive == "dot_product_attention_fwd" and "Backward" in target
            return "dot_product_attention_bwd" if backward else primitive
    named = line.attribute("operation").rpartition("/")[2]
    return named if named in spec.load().op_of_primitive else target


def _combine(line: _Line, lines: list[_Line]) -> list[_Line]:
    """Returns the instructions that combine an element, their first parameter, with an update."""
    return [other for other in lines if other.computation == line.attribute("apply")]


def _ignores_update(line: _Line, lines: list[_Line]) -> bool:
    combine = _combine(line, lines)
    updates = {x.name for x in combine if x.opcode == "parameter" and x.rest.startswith("1)")}
    return not any(updates & {*x.operands, x.name if x.is_root else ""} for x in combine)


def _facts(line: _Line, lines: list[_Line]) -> dict[str, spec.FactValue]:
    return {
        "dtype": _kind(line.dtype),
        "unique_indices": "unique_indices=true" in line.rest,
        "one_update": line.opcode == "scatter" and _has_one_update(line, lines),
        "iota_indices": False,
        "same_value": False,
        "applies_function": line.opcode == "scatter" and _ignores_update(line, lines),
        "ordered_path_fits": True,
        "overlapping": _overlaps(line),
        "float_atomics": False,
        "unreduced": False,
    }


def _kind(dtype: str) -> str:
    if dtype == "pred":
        return "bool"
    if dtype.startswith("c"):
        return "complex"
    return "floating" if dtype.startswith(("f", "bf")) else "integer"


def _has_one_update(line: _Line, lines: list[_Line]) -> bool:
    types = {other.name: other.result for other in lines}
    operands = line.operands
    count = (len(operands) - 1) // 2  # The arrays, the indices, and as many updates.
    match = _TYPE.search(types.get(operands[count], "")) if operands else None
    if match is None:
        return False
    sizes = [int(size) for size in match[2].split(",") if size]
    vector = int(line.attribute("vector") or len(sizes))
    return math.prod(size for axis, size in enumerate(sizes) if axis != vector) <= 1


def _overlaps(line: _Line) -> bool:
    sizes = [int(size) for size in line.attribute("size").split("x") if size]
    strides = [int(stride) for stride in line.attribute("stride").split("x") if stride]
    strides = strides or [1] * len(sizes)
    return any(stride < size for size, stride in zip(sizes, strides, strict=True))


def _frames(text: str) -> dict[int, tuple[_Frame, ...]]:
    """Returns the frames of each id, innermost first, from the tables before the program."""
    table = functools.partial(_table, text)
    files = {number: entry.strip('"') for number, entry in table("FileNames").items()}
    functions = {number: entry.strip('"') for number, entry in table("FunctionNames").items()}
    places = {}
    for number, entry in table("FileLocations").items():
        at = _numbers(entry)
        file = files.get(at["file_name_id"], "")
        places[number] = file, at["line"], functions.get(at["function_name_id"], "")
    links = {number: _numbers(entry) for number, entry in table("StackFrames").items()}
    chains: dict[int, tuple[_Frame, ...]] = {}
    for number in links:
        chain: list[_Frame] = []
        current = number
        while current in links and len(chain) < len(links):
            chain.append(places[links[current]["file_location_id"]])
            current = links[current]["parent_frame_id"] - 1  # The ids of parents start at 1.
        chains[number] = tuple(chain)
    return chains


def _table(text: str, name: str) -> dict[int, str]:
    match = re.search(rf"^{name}\n((?:\d+ .*\n)+)", text, re.MULTILINE)
    rows = match[1].splitlines() if match else []
    return {int(row.partition(" ")[0]): row.partition(" ")[2] for row in rows}


def _numbers(entry: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", entry)}
