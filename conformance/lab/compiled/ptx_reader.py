"""Reads PTX, the code of a GPU's kernels: its kernels, loops, atomics, and inexact arithmetic."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

_ENTRY = re.compile(r"^\s*\.(?:visible|weak)?\s*\.?entry\s+([\w$]+)\s*\(", re.MULTILINE)
_ATOMIC = re.compile(r"(?<![\w.%])((?:atom|red)(?:\.\w+(?:::\w+)*)+)\s+[\[{%_]")
_LABEL = re.compile(r"^\s*([$\w]+):", re.MULTILINE)
_BRANCH = re.compile(r"(?<![\w.%])bra(?:\.uni)?\s+([$\w]+);")
_LOAD = re.compile(r"(?<![\w.%])ld\.global((?:\.[\w:]+)+)")
_VECTOR = re.compile(r"\.v(\d)\b")
_WIDTH = re.compile(r"\.[bfsu](\d+)\b")
_ASYNCHRONOUS = re.compile(
    r"\bcp\.async\.c[ag]\.shared\.global[\w.:]*\s*\[[^]]*\], *\[[^]]*\], *(\w+)"
)
#: A product of tiles by a warp or by the four warps of a group, and of numbers by a thread.
_TILES = re.compile(
    r"(?<![\w.%])(wgmma\.mma_async|mma)\.sync\.aligned\.m(\d+)n(\d+)k(\d+)(?:\.\w+)*\s"
)
_NUMBERS = re.compile(r"(?<![\w.%])(?:fma|mul)\.rn(?:\.\w+)*\.f(?:32|64)\s")
_THREADS = {"mma": 32, "wgmma.mma_async": 128}
_INSTRUCTION = re.compile(r"^\s+(?:@!?%\w+\s+)?[a-z]", re.MULTILINE)
#: Arithmetic of which other devices have other bits: contracted products, and flushed subnormals of
#: a path that does not state them.
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


def loops(code: str) -> int:
    """Returns the number of loops: the labels to which a later branch jumps back."""
    return len(_loop_spans(code))


def loads(code: str) -> tuple[int, int]:
    """Returns the bytes that a thread loads from memory: once, and in each round of its loops.

    A thread that a mask leaves out loads less.
    """
    spans = list(_loop_spans(code).values())
    once = repeated = 0
    for position, count in _loaded(code):
        if any(start < position < end for start, end in spans):
            repeated += count
        else:
            once += count
    return once, repeated


def _loaded(code: str) -> Iterator[tuple[int, int]]:
    """Yields where a thread loads from memory, and how many bytes."""
    for match in _LOAD.finditer(code):
        vector, width = _VECTOR.search(match[1]), _WIDTH.search(match[1])
        yield (
            match.start(),
            (int(vector[1]) if vector else 1) * (int(width[1]) // 8 if width else 0),
        )
    for match in _ASYNCHRONOUS.finditer(code):
        yield match.start(), int(match[1], 0)


@dataclasses.dataclass(frozen=True)
class Multiplication:
    """What a thread does to multiply, in each round of the loop that multiplies most.

    Attributes:
        products: The products that it adds up.
        loaded: The bytes that it loads from memory.
        instructions: The instructions that it executes, without the branch back.
    """

    products: float
    loaded: int
    instructions: int

    @property
    def intensity(self) -> float:
        """The floating-point operations for each byte: a product and its sum are two."""
        return 2 * self.products / max(1, self.loaded)


def multiplication(code: str) -> Multiplication:
    """Returns what a thread does to multiply; of a kernel without a loop, in all of its code."""
    rounds = [code[start:end] for start, end in _loop_spans(code).values()] or [code]
    return max((_multiplication(each) for each in rounds), key=lambda found: found.products)


def _multiplication(code: str) -> Multiplication:
    products: float = len(_NUMBERS.findall(code))
    for name, *sizes in _TILES.findall(code):
        rows, columns, terms = map(int, sizes)
        products += rows * columns * terms / _THREADS[name]
    loaded = sum(count for _, count in _loaded(code))
    return Multiplication(products, loaded, len(_INSTRUCTION.findall(code)))


def _loop_spans(code: str) -> dict[str, tuple[int, int]]:
    """Returns where each loop begins and ends, by its label."""
    starts = {match[1]: match.start() for match in _LABEL.finditer(code)}
    return {
        match[1]: (starts[match[1]], match.start())
        for match in _BRANCH.finditer(code)
        if starts.get(match[1], len(code)) < match.start()
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
