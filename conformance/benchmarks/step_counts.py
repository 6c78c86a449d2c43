"""The size of programs of training under ``portable``, as numbers that no machine changes.

XLA takes about the same time to compile each operation, and it copies a function for each of its
calls. So the time to compile grows with the operations that XLA reads after this::

    func @main:  call @f, call @f, add        @f has 100 operations
    operations   101                          each function once
    copied       201                          each function for each of its calls

``step_counts.toml`` has a budget for each program; a test compares.
"""

from __future__ import annotations

import collections
import functools
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import jax

import impl
from conformance import programs
from conformance.benchmarks.families import portable

_BUDGETS = Path(__file__).with_suffix(".toml")
_NAME = r'@(?P<name>[\w.]+|"[^"]+")\('
_FUNCTION = re.compile(rf"^\s*func\.func \w* ?{_NAME}")
_CALL = re.compile(rf"\bcall {_NAME}")

#: Each program by name: its step and arguments.
PROGRAMS: Mapping[str, Callable[[], programs.Program]] = {
    **{name: functools.partial(make, 1) for name, make in portable.PROGRAMS.items()},
    "graph net": functools.partial(programs.build, "jraph_attention"),
}


def budgets() -> dict[str, dict[str, dict[str, int]]]:
    """Returns the greatest counts of each program, by the engine and the name of a count."""
    return tomllib.loads(_BUDGETS.read_text(encoding="utf-8"))


def counts(name: str, engine: str) -> dict[str, int]:
    """Returns the counts of a program under ``portable``: ``operations`` and ``copied``.

    Args:
        name: One of ``PROGRAMS``.
        engine: The name of an engine.
    """
    step, args = PROGRAMS[name]()
    with impl.deterministic(guarantee="portable"), impl.testing.engine(engine):
        return counts_of(jax.jit(step).lower(*args).as_text())


def counts_of(text: str) -> dict[str, int]:
    """Returns the counts of a module of StableHLO, whose functions are private but for ``main``."""
    own: collections.Counter[str] = collections.Counter()
    calls: dict[str, list[str]] = collections.defaultdict(list)
    function = ""
    for line in text.splitlines():
        if start := _FUNCTION.match(line):
            function = start["name"]
        elif call := _CALL.search(line):
            calls[function].append(call["name"])
        elif line.lstrip().startswith("%"):
            own[function] += 1

    @functools.cache
    def copied(name: str) -> int:
        return own[name] + sum(map(copied, calls[name]))

    return {"operations": own.total(), "copied": copied("main")}
