"""Runs ``ptxas``, NVIDIA's assembler, to read a kernel's registers and the bytes that it spills."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclasses.dataclass(frozen=True)
class Resources:
    """The resources that one thread of a kernel takes.

    Attributes:
        registers: The number of registers.
        spilled: The bytes that it stores in memory for lack of registers.
    """

    registers: int
    spilled: int


def find_assembler() -> Path | None:
    """Returns ``ptxas``, of the package ``nvidia-cuda-nvcc`` or on the path; None if absent."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or []) if package else []:
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return path
    path_on_path = shutil.which("ptxas")
    return Path(path_on_path) if path_on_path else None


@functools.lru_cache(maxsize=8192)
def kernel_resources(text: str, ptxas: Path) -> Resources:
    """Assembles the kernel of a PTX file and returns the resources that it takes.

    Raises:
        ValueError: The file does not assemble, or the output of the assembler is not understood.
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
    return parse_resources(done.stderr)


def parse_resources(output: str) -> Resources:
    """Parses the output of ``ptxas -v`` for one kernel.

    Raises:
        ValueError: The output names no registers or no spills.
    """
    registers, spills = _REGISTERS.search(output), _SPILLS.search(output)
    if registers is None or spills is None:
        raise ValueError(f"ptxas -v said neither registers nor spills: {output.strip()!r}")
    return Resources(int(registers[1]), int(spills[1]))
