"""Reads the text of a lowered program: its kernels, its races and its loops.

A race or a serial loop shows in the program that JAX gives to XLA, so these checks need no GPU.
"""

from __future__ import annotations

import re

_TRITON = re.compile(r'custom_call @__gpu\$xla\.gpu\.triton.*? name = "(\w+)".*-> (.*)')
_CODE = re.compile(r' ir = "[^"]*"')
_SCATTER = re.compile(
    r'"stablehlo\.scatter"\(\S+, \S+, (%\w+)\)'
    r".*?unique_indices = (true|false)(.*?)-> (.*?)\n",
    re.DOTALL,
)
#: The region of a scatter that overwrites: it returns its second argument, the update.
_OVERWRITES = re.compile(r"\^bb0\(%\w+: [^,]*, (%\w+): [^)]*\):\s*stablehlo\.return \1 ")
#: A whole number, as the terms of an exact sum are. Sums of them have no order.
_WHOLE = re.compile(r"(%\w+) = stablehlo\.round_nearest_afz ")
_WHILE = re.compile(r"cond \{(.*?)\} do \{", re.DOTALL)
_BELOW = re.compile(r"stablehlo\.compare\s+LT, %\S+, (%\S+),")
_CONSTANT = re.compile(r"(%\S+) = stablehlo\.constant dense<(\d+)>")
_SHARDED = re.compile(r"(%\S+) = sdy\.sharding_constraint (%\S+)")
#: The steps of the longest search: one for each bit of a number. Samples have hundreds of updates.
_BITS = 64
_INEXACT = re.compile(r"x?(?:bf16|f16|f32|f64|complex<)")


def kernels(text: str) -> list[str]:
    """Returns the names of the Pallas kernels in a program lowered for CUDA, in order."""
    return [match.group(1) for match in map(_TRITON.search, text.splitlines()) if match]


def has_schedule(text: str) -> bool:
    """Returns whether a schedule may reorder a part of a program: a kernel, or a scatter."""
    return bool(kernels(text)) or "stablehlo.scatter" in text


def without_kernel_code(text: str) -> str:
    """Returns the program with the code of its kernels removed. Names and shapes stay.

    The code of a kernel contains line numbers of the source that JAX traced. These depend on what
    JAX traced before.
    """
    return _CODE.sub("", text)


def races(text: str) -> list[str]:
    """Returns the operations of a program lowered for CUDA whose results may depend on timing.

    These are kernels that update floats atomically, and XLA scatters whose indices may repeat, if
    they overwrite or combine floats. A sum of whole numbers, which are the terms of an exact sum,
    does not count.
    """
    operations = []
    for line in text.splitlines():
        match = _TRITON.search(line)
        if match is None:
            continue
        if "atomic_rmw" in line and _INEXACT.search(match.group(2)):
            operations.append(match.group(1))
    whole = set(_WHOLE.findall(text))
    for updates, unique, region, result in _SCATTER.findall(text):
        rounds = _INEXACT.search(result) and updates not in whole
        if unique == "false" and (rounds or _OVERWRITES.search(region)):
            operations.append("stablehlo.scatter")
    return operations


def long_loops(text: str) -> list[str]:
    """Returns the loops of a program that may take a step for each update.

    A serial scatter takes so many. These are loops with an unknown number of steps, or with more
    steps than a search. Loops inside a kernel do not count, because many instances of a kernel run
    at a time.
    """
    loops = []
    for condition in _WHILE.findall(text):
        steps = _steps(condition)
        if steps is None:
            loops.append("a loop of an unknown number of steps")
        elif steps > _BITS:
            loops.append(f"a loop of {steps} steps")
    return loops


def _steps(condition: str) -> int | None:
    """Returns the number that a loop counts up to. None if the condition does not state it."""
    below = _BELOW.search(condition)
    name = below.group(1) if below else None
    constants = dict(_CONSTANT.findall(condition))
    # JAX 0.12 and later may constrain the sharding of a value, which gives it another name.
    name = dict(_SHARDED.findall(condition)).get(name, name)
    return int(constants[name]) if name in constants else None
