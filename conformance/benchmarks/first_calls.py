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

import jax

import impl
from conformance.benchmarks.eager_calls import Call

#: The number of operations that take as long to lower as one function.
FUNCTION = 4
_BUDGETS = Path(__file__).parent / "first_calls.toml"


def cost(call: Call) -> int | None:
    """Returns what a call takes with the mode on: operations to lower, on a CPU.

    None if it cannot be lowered, since the shape of its result depends on values.
    """

    def program(*arrays: jax.Array) -> object:
        return call.ours(*arrays)

    try:
        with impl.deterministic(profile="complete"):
            text = jax.jit(program).lower(*call.arrays).as_text()
    except (TypeError, IndexError):  # JAX raises both for a value that is unknown.
        return None
    operations = sum(line.lstrip().startswith("%") for line in text.splitlines())
    return operations + FUNCTION * (text.count("func.func") - 1)


def python_calls(call: Call) -> int:
    """Returns how often Python calls a function in a first call with the mode on.

    All traces are forgotten before. The call must be one that can be lowered.
    """

    def lower() -> None:
        def program(*arrays: jax.Array) -> object:
            return call.ours(*arrays)

        jax.jit(program).lower(*call.arrays)

    with impl.deterministic(profile="complete"):
        lower()  # Modules are imported now, and decisions are made.
        jax.clear_caches()
        return calls_in(lower)


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
