"""What the code of a GPU's kernels says: their atomics, their registers, and what they spill."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_ENTRY = re.compile(r"^\s*\.(?:visible|weak)?\s*\.?entry\s+([\w$]+)\s*\(", re.MULTILINE)
_ATOMIC = re.compile(r"(?<![\w.%])((?:atom|red)(?:\.\w+(?:::\w+)*)+)\s+[\[{%_]")
_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"})
#: Of these the result depends on which came first, whatever they are of.
_BY_TURNS = frozenset({"cas", "exch", "inc", "dec"})
_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclasses.dataclass(frozen=True)
class Resources:
    """What a kernel takes of a core.

    Attributes:
        registers: How many a thread has.
        spilled: Bytes that a thread stores since it has no register for them.
    """

    registers: int
    spilled: int


def entries(text: str) -> dict[str, str]:
    """The code of each kernel in a PTX file, by name."""
    found = list(_ENTRY.finditer(text))
    bounds = [*(match.start() for match in found), len(text)]
    return {
        match[1]: text[start:end]
        for match, (start, end) in zip(found, itertools.pairwise(bounds), strict=True)
    }


def racing_atomics(code: str) -> list[str]:
    """The atomic instructions whose result depends on their order, each once.

    Integers add up to the same in every order, and so do minima and maxima. What swaps or compares
    first does not, of any type: a sum of floats may be made of it.
    """
    found: dict[str, None] = {}
    for match in _ATOMIC.finditer(code):
        parts = set(match[1].split("."))
        if parts & _BY_TURNS or (parts & _FLOATS and "add" in parts):
            found[match[1]] = None
    return list(found)


def assembler() -> Path | None:
    """The assembler of NVIDIA's package ``nvidia-cuda-nvcc``, or of the path; None if absent."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or []) if package else []:
        for found in sorted(Path(folder).glob("*/bin/ptxas")):
            return found
    on_path = shutil.which("ptxas")
    return Path(on_path) if on_path else None


@functools.lru_cache(maxsize=8192)
def resources(text: str, ptxas: Path) -> Resources:
    """What the kernel of a PTX file takes, by assembling it.

    Raises:
        ValueError: It does not assemble, or the assembler's words are not understood.
    """
    target = _TARGET.search(text)
    if target is None:
        raise ValueError("the PTX names no target")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(text, encoding="utf-8")
        command = [ptxas, "-v", "-arch", target[1], source, "-o", source.with_suffix(".cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ValueError(f"ptxas: {done.stderr.strip()}")
    return read_resources(done.stderr)


def read_resources(said: str) -> Resources:
    """Reads what ``ptxas -v`` said of one kernel.

    Raises:
        ValueError: It says nothing of registers or spills.
    """
    registers, spills = _REGISTERS.search(said), _SPILLS.search(said)
    if registers is None or spills is None:
        raise ValueError(f"ptxas -v said neither registers nor spills: {said.strip()!r}")
    return Resources(int(registers[1]), int(spills[1]))
