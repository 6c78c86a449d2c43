"""Reads a program that XLA optimised: its races, approximations, calls of libraries, and sorts.

A lowered program shows what XLA receives. These are the checks of what XLA made of it. Of

    %region (a: f32[], b: f32[]) -> f32[] { ... ROOT %sum = f32[] add(%a, %b) }
    ... %s = f32[8,5]{1,0} scatter(%x, %i, %u), to_apply=%region

``races`` returns ``["scatter to f32[8,5] (by add, indices may repeat)"]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from impl._core.numerics import ANY_ORDER, MENDED
from impl._reading import hlo
from impl._reading.hlo import Instruction

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
ROUNDED_IN_FLOAT64 = frozenset({"divide", "sqrt"})
#: Functions that differ between devices for every dtype.
APPROXIMATE = frozenset(
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
    """
    program = hlo.parse(text)
    racing = []
    for each in program:
        is_inexact = _INEXACT.search(each.result) is not None
        if each.opcode == "select-and-scatter" and is_inexact:
            racing.append(_description(each))
        if each.opcode != "scatter" or "unique_indices=true" in each.rest:
            continue
        if ANY_ORDER in each.rest:  # A bound of the errors decides how the result is rounded.
            continue
        combine = _combine(program.root(each.attribute("to_apply")))
        if combine not in (_EXACT if is_inexact else _EXACT_OF_INTEGERS):
            racing.append(f"{_description(each)} (by {combine}, indices may repeat)")
    return racing


def kernels_in_any_order(text: str) -> frozenset[str]:
    """Returns the names of XLA's kernels whose sums may be added in any order.

    A bound of the errors decides how such a sum is rounded, so atomics in these kernels change no
    result. XLA names a kernel after its instruction: ``input_scatter_fusion_3`` is the kernel of
    the instruction ``input_scatter_fusion.3``.
    """
    marked = (each.name for each in hlo.parse(text) if ANY_ORDER in each.rest)
    return frozenset(re.sub(r"\W", "_", name) for name in marked)


def library_calls(text: str) -> list[str]:
    """Returns the targets of the calls of libraries, in their order, each once."""
    targets = (each.target for each in hlo.parse(text))
    return _once(t for t in targets if t and not t.startswith((*_OWN_CALLS, *_STABLE_CALLS)))


def approximations(text: str) -> list[str]:
    """Returns the instructions of floats that a GPU approximates, each once.

    Integer arithmetic corrects the divisions of the scope ``MENDED``.
    """
    return _once(_description(each) for each in hlo.parse(text) if _is_approximate(each))


def _is_approximate(instruction: Instruction) -> bool:
    if instruction.opcode not in ROUNDED_IN_FLOAT64 | APPROXIMATE:
        return False
    is_float64 = instruction.result.startswith(("f64[", "c128["))
    if instruction.opcode in ROUNDED_IN_FLOAT64 and is_float64:
        return False
    is_mended = f"/{MENDED}/" in instruction.scope
    return _INEXACT.search(instruction.result) is not None and not is_mended


def sorts(text: str) -> list[str]:
    """Returns the names of the sorts of a program: ``CUB`` and ``XLA``, each once."""
    program = list(hlo.parse(text))
    names = {"CUB" for each in program if each.target.startswith(_STABLE_CALLS)}
    return sorted(names | {"XLA" for each in program if each.opcode == "sort"})


def _combine(root: Instruction | None) -> str:
    """Returns how a scatter combines, by the root of the computation that it applies."""
    if root is None:
        return "unknown"
    return "assignment" if root.parameter is not None else root.opcode


def _description(instruction: Instruction) -> str:
    shape = re.sub(r"\{[^{}]*\}", "", instruction.result)
    return f"{instruction.opcode} to {shape}"


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
