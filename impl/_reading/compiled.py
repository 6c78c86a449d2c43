"""Finds the instructions of a compiled program that can vary, with the user's lines.

XLA adds instructions that no equation of JAX shows, such as sums over devices, and drops others. So
``impl.audit(level="compiled")`` asks the rows about XLA's instructions instead of JAX's equations.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping

import spec
from impl._reading import hlo, source
from impl._reading.hlo import Program
from impl._reading.source import Lines

_SIZES = re.compile(r"window=\{[^}]*\bsize=([\dx]+)")
_STRIDES = re.compile(r"window=\{[^}]*\bstride=([\dx]+)")
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
    """An instruction that a row may be about, with the lines of source that it comes from.

    ``primitive`` is the primitive of JAX that it belongs to, or the target of a call.
    """

    primitive: str
    facts: Mapping[str, spec.FactValue]
    lines: Lines
    shapes: str


def instructions(text: str, *, timed_kernels: bool) -> tuple[list[Instruction], int]:
    """Returns the instructions of a compiled program that rows may be about, and the number of all.

    The text is as ``compiled.as_text()`` has it. ``timed_kernels`` is whether XLA may have picked
    kernels by timing.
    """
    program, frames = hlo.parse(text), hlo.frames(text)
    everything = list(program)
    chosen = []
    for each in everything:
        primitive = _primitive(each, program)
        if primitive is not None:
            facts = _facts(each, program) | {"timed_kernels": timed_kernels}
            lines = source.lines_of(frames.get(int(each.attribute("stack_frame_id") or 0), ()))
            chosen.append(Instruction(primitive, facts, lines, " ".join(map(str, each.shapes))))
    return chosen, len(everything)


def _primitive(instruction: hlo.Instruction, program: Program) -> str | None:
    """Returns the primitive that an instruction belongs to; None if no row can be about it."""
    if instruction.opcode == "scatter":
        root = program.root(instruction.attribute("to_apply"))
        unknown = "scatter" if _ignores_update(instruction, program) else "reduce"
        return _SCATTERS.get(root.opcode, unknown) if root else unknown
    if instruction.opcode != "custom-call":
        return _PRIMITIVES.get(instruction.opcode)
    target = instruction.target
    if target.startswith(_HARMLESS):
        return None
    for start, primitive in _LIBRARIES.items():
        if target.startswith(start):
            backward = primitive == "dot_product_attention_fwd" and "Backward" in target
            return "dot_product_attention_bwd" if backward else primitive
    named = instruction.scope.rpartition("/")[2]
    return named if named in spec.load().op_of_primitive else target


def _ignores_update(scatter: hlo.Instruction, program: Program) -> bool:
    """Returns whether the combine of a scatter does not read its second parameter, the update."""
    combine = program.computations.get(scatter.attribute("to_apply"), {}).values()
    updates = {x.name for x in combine if x.parameter == 1}
    return not any(updates & {*x.operands, x.name if x.is_root else ""} for x in combine)


def _facts(instruction: hlo.Instruction, program: Program) -> dict[str, spec.FactValue]:
    is_scatter = instruction.opcode == "scatter"
    shapes = instruction.shapes
    return {
        "dtype": _kind(shapes[0].dtype if shapes else ""),
        "unique_indices": "unique_indices=true" in instruction.rest,
        "one_update": is_scatter and _has_one_update(instruction, program),
        "iota_indices": False,
        "same_value": False,
        "applies_function": is_scatter and _ignores_update(instruction, program),
        "ordered_path_fits": True,
        "overlapping": _overlaps(instruction),
        "float_atomics": False,
        "unreduced": False,
    }


def _kind(dtype: str) -> str:
    if dtype == "pred":
        return "bool"
    if dtype.startswith("c"):
        return "complex"
    return "floating" if dtype.startswith(("f", "bf")) else "integer"


def _has_one_update(scatter: hlo.Instruction, program: Program) -> bool:
    operands = scatter.operands
    count = (len(operands) - 1) // 2  # The operands are n arrays, the indices, and n updates.
    known = program.computations[scatter.computation]
    indices = known.get(operands[count]) if operands else None
    if indices is None or not indices.shapes:
        return False
    sizes = indices.shapes[0].dimensions
    vector = int(scatter.attribute("index_vector_dim") or len(sizes))
    return math.prod(size for axis, size in enumerate(sizes) if axis != vector) <= 1


def _overlaps(instruction: hlo.Instruction) -> bool:
    """Returns whether the windows of an instruction overlap; False for one without windows."""
    sizes, strides = _window(_SIZES, instruction), _window(_STRIDES, instruction)
    strides = strides or [1] * len(sizes)
    return any(stride < size for size, stride in zip(sizes, strides, strict=True))


def _window(pattern: re.Pattern[str], instruction: hlo.Instruction) -> list[int]:
    match = pattern.search(instruction.rest)
    return [int(number) for number in match[1].split("x")] if match else []
