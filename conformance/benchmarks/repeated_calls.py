"""The cost of an eager call of an op once it is compiled, as a number that machines share.

Such a call finds its program, runs it, and makes the checks that need values. The program takes
about as long as plain JAX's program. The rest is Python, whose calls are counted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import jax

import impl
from conformance.benchmarks import first_calls
from conformance.benchmarks.eager_calls import Call

#: The calls before the one that is counted: the first one traces, and JAX sets up its fast path.
WARM = 3
#: A call that takes more is not compiled: it runs as it is written, and has no budget.
AS_WRITTEN = 100
_BUDGETS = Path(__file__).parent / "repeated_calls.toml"


def python_calls(call: Call) -> int:
    """Returns how often Python calls a function in an eager call with the mode on."""
    with impl.deterministic(profile="complete"):
        for _ in range(WARM):
            jax.block_until_ready(call.ours(*call.arrays))
        return first_calls.calls_in(lambda: call.ours(*call.arrays))


def budgets() -> Mapping[str, int]:
    """Returns how many calls of Python a call may take at most, by the name of the call."""
    tables = tomllib.loads(_BUDGETS.read_text(encoding="utf-8"))
    return {op: int(number) for op, number in tables["python_calls"].items()}
