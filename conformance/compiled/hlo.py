"""What XLA's optimised program says about its determinism."""

from __future__ import annotations

import re
from collections.abc import Iterator

_INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.-]+) = (\(.*?\)|[^\s(]\S*) ([a-z][\w-]*)\((.*)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_APPLY = re.compile(r"to_apply=%?([\w.-]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_INEXACT = re.compile(r"\b(?:bf16|f16|f32|f64|c64|c128|f8\w+)\[")
#: What gives the same bits in every order, whatever it is of; and what does so for all but floats.
_EXACT = frozenset({"minimum", "maximum", "and", "or", "xor"})
_EXACT_OF_INTEGERS = _EXACT | {"add", "multiply"}
#: Custom calls that are no library's: kernels of Pallas, and marks that XLA leaves in a program.
_OWN_CALLS = ("__gpu$xla.gpu.triton", "Sharding", "AllocateBuffer", "MoveToHost", "MoveToDevice")
#: CUB sorts with radix passes, which are stable: no order is left to the hardware.
_STABLE_CALLS = ("__cub$", "xla.gpu.ext.cub_sort")


def races(text: str) -> list[str]:
    """The instructions of an optimised program whose result may depend on timing.

    These are scatters whose indices may repeat, unless what they combine by gives the same bits in
    every order. Of several writes to one place any may stay, so those race for every dtype.

    Args:
        text: ``compiled.as_text()``.
    """
    roots = _roots(text)
    found = []
    for _, result, opcode, rest in _instructions(text):
        if opcode == "select-and-scatter" and _INEXACT.search(result):
            found.append(_shown(opcode, result, ""))
        if opcode != "scatter" or "unique_indices=true" in rest:
            continue
        apply = _APPLY.search(rest)
        by = roots.get(apply[1], "unknown") if apply else "unknown"
        exact = _EXACT if _INEXACT.search(result) else _EXACT_OF_INTEGERS
        if by not in exact:
            found.append(_shown(opcode, result, f"by {by}, indices may repeat"))
    return found


def library_calls(text: str) -> list[str]:
    """The targets of an optimised program's calls of libraries, in order, each once."""
    found: dict[str, None] = {}
    for _, _, opcode, rest in _instructions(text):
        target = _TARGET.search(rest) if opcode == "custom-call" else None
        if target and not target[1].startswith((*_OWN_CALLS, *_STABLE_CALLS)):
            found[target[1]] = None
    return list(found)


def _instructions(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, type of the result, opcode, and operands with attributes, of each instruction."""
    for line in text.splitlines():
        match = _INSTRUCTION.match(line)
        if match:
            yield match[2], match[3], match[4], match[5]


def _roots(text: str) -> dict[str, str]:
    """The opcode of the root of each computation, which is what a scatter combines by.

    Where the root gives back what came second, that is an assignment.
    """
    roots: dict[str, str] = {}
    computation = ""
    for line in text.splitlines():
        opened = _COMPUTATION.match(line)
        if opened:
            computation = opened[1]
        match = _INSTRUCTION.match(line)
        if match and match[1]:
            roots[computation] = "assignment" if match[4] == "parameter" else match[4]
    return roots


def _shown(opcode: str, result: str, more: str) -> str:
    shape = re.sub(r"\{[^{}]*\}", "", result)
    return f"{opcode} to {shape}" + (f" ({more})" if more else "")
