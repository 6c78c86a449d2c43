"""Reads PTX, the code of a GPU's kernels: its kernels, atomics, and inexact arithmetic.

NVIDIA documents the syntax in "Parallel Thread Execution ISA", https://docs.nvidia.com/cuda/parallel-thread-execution.
An instruction has its type and its rounding in its name: ``atom.global.add.f32`` adds floats
atomically, in an order that depends on timing, and ``fma.rn.f32`` rounds a product and a sum once.
"""

from __future__ import annotations

import itertools
import re

_ENTRY = re.compile(r"^\s*\.(?:visible|weak)?\s*\.?entry\s+([\w$]+)\s*\(", re.MULTILINE)
_ATOMIC = re.compile(r"(?<![\w.%])((?:atom|red)(?:\.\w+(?:::\w+)*)+)\s+[\[{%_]")
#: Arithmetic that gives other bits on other devices: products that are contracted with a sum, and
#: instructions that flush subnormals.
_CONTRACTED = re.compile(r"(?<![\w.%])(fma\.r[nzmp](?:\.\w+)*|\w+(?:\.\w+)*\.ftz(?:\.\w+)*)\s")
#: Quotients and roots that are not rounded to nearest.
_APPROXIMATE = re.compile(
    r"(?<![\w.%])((?:div\.(?:full|approx)|r?sqrt\.approx|rcp\.approx)(?:\.\w+)*)\s"
)
_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"})
#: The atomics whose result depends on which came first, for every type.
_ORDERED = frozenset({"cas", "exch", "inc", "dec"})


def entries(text: str) -> dict[str, str]:
    """Returns the code of each kernel in a PTX file, by the kernel's name."""
    matches = list(_ENTRY.finditer(text))
    bounds = [*(match.start() for match in matches), len(text)]
    return {
        match[1]: text[start:end]
        for match, (start, end) in zip(matches, itertools.pairwise(bounds), strict=True)
    }


def racing_atomics(code: str) -> list[str]:
    """Returns the atomic instructions whose result depends on their order, each once.

    Sums of integers, minima and maxima are the same in every order. A swap or a comparison races
    for every type: a program can build a sum of floats from it.
    """
    instructions: dict[str, None] = {}
    for match in _ATOMIC.finditer(code):
        parts = set(match[1].split("."))
        if parts & _ORDERED or (parts & _FLOATS and "add" in parts):
            instructions[match[1]] = None
    return list(instructions)


def contractions(code: str) -> list[str]:
    """Returns the fused multiply-adds, and the instructions that flush subnormals, each once."""
    return list(dict.fromkeys(match[1] for match in _CONTRACTED.finditer(code)))


def approximations(code: str) -> list[str]:
    """Returns the instructions whose quotient or root is not rounded to nearest, each once."""
    return list(dict.fromkeys(match[1] for match in _APPROXIMATE.finditer(code)))
