"""Reads XLA's optimised program: races, approximations, calls of libraries, and sorts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conformance.lab.compiled import hlo_program
from impl._core.numerics import MENDED

_APPLY = re.compile(r"to_apply=%?([\w.-]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_INEXACT = re.compile(r"\b(?:bf16|f16|f32|f64|c64|c128|f8\w+)\[")
#: The combines that give the same bits in every order, for every dtype.
_EXACT = frozenset({"minimum", "maximum", "and", "or", "xor"})
#: The combines that give the same bits in every order, for integers.
_EXACT_OF_INTEGERS = _EXACT | {"add", "multiply"}
#: Custom calls that call no library: kernels of Pallas, and marks that XLA leaves in a program.
_OWN_CALLS = ("__gpu$xla.gpu.triton", "Sharding", "AllocateBuffer", "MoveToHost", "MoveToDevice")
#: CUB sorts with stable radix passes: the hardware decides no order.
_STABLE_CALLS = ("__cub$", "xla.gpu.ext.cub_sort")
#: Quotients and roots, which a GPU rounds to nearest for float64 alone.
_ROUNDED_IN_FLOAT64 = frozenset({"divide", "sqrt"})
#: Functions that differ between devices for every dtype.
_APPROXIMATE = frozenset(
    {
        *("atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log"),
        *("log-plus-one", "logistic", "power", "rsqrt", "sine", "tan", "tanh"),
    }
)


def races(text: str) -> list[str]:
    """Returns the instructions of an optimised program whose result may depend on timing.

    These are scatters whose indices may repeat, unless their combine gives the same bits in every
    order. If several contributions are assigned to one destination, any of them may stay, so an
    assignment races for every dtype.

    Args:
        text: The text of ``compiled.as_text()``.
    """
    roots = _root_opcodes(text)
    instructions = []
    for result, opcode, rest in _instructions(text):
        if opcode == "select-and-scatter" and _INEXACT.search(result):
            instructions.append(_description(opcode, result, ""))
        if opcode != "scatter" or "unique_indices=true" in rest:
            continue
        apply = _APPLY.search(rest)
        combine = roots.get(apply[1], "unknown") if apply else "unknown"
        exact = _EXACT if _INEXACT.search(result) else _EXACT_OF_INTEGERS
        if combine not in exact:
            note = f"by {combine}, indices may repeat"
            instructions.append(_description(opcode, result, note))
    return instructions


def library_calls(text: str) -> list[str]:
    """Returns the targets of the calls of libraries, in their order, each once."""
    targets: dict[str, None] = {}
    for _, opcode, rest in _instructions(text):
        target = _TARGET.search(rest) if opcode == "custom-call" else None
        if target and not target[1].startswith((*_OWN_CALLS, *_STABLE_CALLS)):
            targets[target[1]] = None
    return list(targets)


def approximations(text: str) -> list[str]:
    """Returns the instructions of floats that a GPU approximates, each once.

    Integer arithmetic corrects the divisions and roots of the scope ``MENDED``.
    """
    instructions: dict[str, None] = {}
    for result, opcode, rest in _instructions(text):
        rounded = opcode in _ROUNDED_IN_FLOAT64 and result.startswith(("f64[", "c128["))
        approximate = opcode in _ROUNDED_IN_FLOAT64 | _APPROXIMATE and _INEXACT.search(result)
        if approximate and not rounded and f"/{MENDED}/" not in rest:
            instructions[_description(opcode, result, "")] = None
    return list(instructions)


def sorts(text: str) -> list[str]:
    """Returns the names of the sorts of a program: ``CUB`` and ``XLA``, each once."""
    names: dict[str, None] = {}
    for _, opcode, rest in _instructions(text):
        target = _TARGET.search(rest) if opcode == "custom-call" else None
        if target and target[1].startswith(_STABLE_CALLS):
            names["CUB"] = None
        elif opcode == "sort":
            names["XLA"] = None
    return sorted(names)


def _instructions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields the result's type, the opcode, and the operands with attributes of each."""
    for _, each in hlo_program.instructions(text):
        yield each.result, each.opcode, each.rest


def _root_opcodes(text: str) -> dict[str, str]:
    """Returns the opcode of each computation's root: the combine of a scatter that applies it.

    A root that returns a parameter is an assignment.
    """
    return {
        computation: "assignment" if each.opcode == "parameter" else each.opcode
        for computation, each in hlo_program.instructions(text)
        if each.is_root
    }


def _description(opcode: str, result: str, note: str) -> str:
    shape = re.sub(r"\{[^{}]*\}", "", result)
    return f"{opcode} to {shape}" + (f" ({note})" if note else "")
