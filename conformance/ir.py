"""What the lowered program of an op says about its determinism."""

from __future__ import annotations

import re

_TRITON = re.compile(r'custom_call @__gpu\$xla\.gpu\.triton.*? name = "(\w+)".*-> (.*)')
_CODE = re.compile(r' ir = "[^"]*"')
_SCATTER = re.compile(
    r'"stablehlo\.scatter".*?unique_indices = (true|false).*?-> (.*?)\n', re.DOTALL
)
_WHILE = re.compile(r"cond \{(.*?)\} do \{", re.DOTALL)
_BELOW = re.compile(r"stablehlo\.compare\s+LT, %\S+, (%\S+),")
#: A search takes a step for each bit of a number, of which there are at most so many; samples have
#: hundreds of updates.
_BITS = 64
_INEXACT = re.compile(r"x?(?:bf16|f16|f32|f64|complex<)")


def kernels(text: str) -> list[str]:
    """The names of the Pallas kernels in a program lowered for CUDA, in order."""
    return [match.group(1) for match in map(_TRITON.search, text.splitlines()) if match]


def without_kernel_code(text: str) -> str:
    """The program with kernels by name and shape alone.

    A kernel's code carries the places in the source that it was traced from, and those differ
    with what JAX had traced before.
    """
    return _CODE.sub("", text)


def races(text: str) -> list[str]:
    """The operations of a program lowered for CUDA whose result may depend on timing.

    These are kernels that update floats atomically, kernels that say in their name that any of
    several writes may stay, and XLA scatters of floats whose indices may repeat.
    """
    found = []
    for line in text.splitlines():
        match = _TRITON.search(line)
        if match is None:
            continue
        atomic = "atomic_rmw" in line and _INEXACT.search(match.group(2))
        if atomic or "_any" in match.group(1):
            found.append(match.group(1))
    for unique, result in _SCATTER.findall(text):
        if unique == "false" and _INEXACT.search(result):
            found.append("stablehlo.scatter")
    return found


def long_loops(text: str) -> list[str]:
    """The loops of a program that may take a step for each update, as a serial scatter does.

    These are those whose number of steps is not stated, or is more than a search takes. A loop
    inside a kernel is none of them: it is taken by many programs at a time.
    """
    found = []
    for condition in _WHILE.findall(text):
        below = _BELOW.search(condition)
        name = re.escape(below.group(1)) if below else ""
        stated = re.search(rf"{name} = stablehlo\.constant dense<(\d+)>", condition)
        if below is None or stated is None:
            found.append("a loop of an unknown number of steps")
        elif int(stated.group(1)) > _BITS:
            found.append(f"a loop of {stated.group(1)} steps")
    return found
