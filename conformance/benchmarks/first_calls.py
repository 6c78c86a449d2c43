"""What a first call of an op takes, as a number that is the same on every machine.

To lower a program takes JAX about as long for each operation. A function in the program, which a
call of many a function of ``jax.numpy`` is, takes as long as several.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import jax

import impl
from conformance.benchmarks.eager_calls import Call

#: The operations that take as long to lower as a function.
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
    except (TypeError, IndexError):  # JAX's errors about what is not known are both.
        return None
    operations = sum(line.lstrip().startswith("%") for line in text.splitlines())
    return operations + FUNCTION * (text.count("func.func") - 1)


def budgets() -> Mapping[str, int]:
    """Returns the most that a call may take, by the name of the call."""
    return tomllib.loads(_BUDGETS.read_text(encoding="utf-8"))
