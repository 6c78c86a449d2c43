"""The cost of a first call of an op, as numbers that are the same on every machine.

JAX takes about the same time to lower each operation of a program. A call of a function inside of
the program, as many functions of ``jax.numpy`` are, takes the time of several operations. Tracing
takes longer where a function of ``jax.numpy`` stands for one operation: JAX traces such a function
for each type, and then writes it into the program. The number of Python calls counts that work too.
"""

from __future__ import annotations

import gc
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax

import impl
from conformance.benchmarks.eager_calls import Call

#: The number of operations that take as long to lower as one function.
FUNCTION = 4
_BUDGETS = Path(__file__).parent / "first_calls.toml"


class Cost(NamedTuple):
    """The operations that a first call lowers, on a CPU, and its calls of functions of Python."""

    operations: int
    python_calls: int


def cost(call: Call) -> Cost | None:
    """Returns what a call takes with the mode on, after all traces are forgotten.

    None if it cannot be lowered, since the shape of its result depends on values.
    """

    def lower() -> jax.stages.Lowered:
        def program(*arrays: jax.Array) -> object:
            return call.ours(*arrays)

        return jax.jit(program).lower(*call.arrays)

    with impl.deterministic(profile="complete"):
        try:
            text = lower().as_text()  # Modules are imported now, and decisions are made.
        except (TypeError, IndexError):  # JAX raises both for a value that is unknown.
            return None
        jax.clear_caches()
        python_calls = calls_in(lower)
    operations = sum(line.lstrip().startswith("%") for line in text.splitlines())
    return Cost(operations + FUNCTION * (text.count("func.func") - 1), python_calls)


def calls_in(function: Callable[[], object]) -> int:
    """Returns how often Python calls a function while one runs."""
    number, collects = 0, gc.isenabled()

    def count(_: object, event: str, __: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # The finalisers of collected objects are calls too.
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return number


def budgets() -> Mapping[str, int]:
    """Returns the greatest number of operations that a call may take, by the name of the call."""
    return _tables()["operations"]


def python_budgets() -> Mapping[str, int]:
    """Returns how many thousand calls of Python a call may take at most, by its name."""
    return _tables()["thousands_of_python_calls"]


def _tables() -> Mapping[str, Mapping[str, int]]:
    return tomllib.loads(_BUDGETS.read_text(encoding="utf-8"))
