"""Counts of what calls and training steps take, which no machine changes, and their budgets.

Of a first call of an op these are the operations that it lowers, and its calls of functions of
Python. JAX takes about the same time to lower each operation of a program; a function inside of
the program, as many functions of ``jax.numpy`` are, takes the time of several. Tracing takes longer
where a function of ``jax.numpy`` stands for one operation, and calls of Python count that too. A
repeated call finds its program, runs it, and makes the checks that need values: all but the program
is Python.

XLA takes about the same time to compile each operation of a training step, and it copies a function
for each of its calls. So the time to compile grows with the operations that XLA reads after this::

    func @main:  call @f, call @f, add        @f has 100 operations
    operations   101                          each function once
    copied       201                          each function for each of its calls
"""

from __future__ import annotations

import collections
import functools
import gc
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import jax

import impl
from conformance import programs
from conformance.benchmarks.families import whole
from conformance.benchmarks.families.overheads import Call

_T = TypeVar("_T")
#: The number of operations that take as long to lower as one function.
FUNCTION = 4
#: The calls before the one that is counted: the first one traces, and JAX sets up its fast path.
WARM = 3
#: A call that takes more is not compiled: it runs as it is written, and has no budget.
AS_WRITTEN = 100
#: How many times a count its budget may be, and how much more. A greater one would not show that a
#: call or a step becomes slow.
_SLACK = {"operations": (1.5, 4), "first": (1.5, 1), "repeated": (1.1, 1)}
_SLACK_OF_STEPS = (1.05, 0)
#: The training steps, with their arguments.
STEPS: Mapping[str, Callable[[], programs.Program]] = {
    **whole.TRAINED,
    "graph net": functools.partial(programs.build, "jraph_attention"),
}
_NAME = r'@(?P<name>[\w.]+|"[^"]+")\('
_FUNCTION = re.compile(rf"^\s*func\.func \w* ?{_NAME}")
_CALL = re.compile(rf"\bcall {_NAME}")


def of_call(call: Call) -> dict[str, float]:
    """Returns what a call takes with the mode on: ``operations``, ``first`` and ``repeated``.

    The first two are absent if it cannot be lowered, since the shape of its result depends on
    values. The last is absent if the call is not compiled.
    """

    def program(*arrays: jax.Array) -> object:
        return call.ours(*arrays)

    counts: dict[str, float] = {}
    with impl.deterministic(profile="complete"):
        for _ in range(WARM):
            jax.block_until_ready(call.ours(*call.arrays))
        repeated, _ = python_calls(lambda: call.ours(*call.arrays))
        jax.clear_caches()
        try:
            first, lowered = python_calls(lambda: jax.jit(program).lower(*call.arrays))
        except (TypeError, IndexError):  # JAX raises both for a value that is unknown.
            pass
        else:
            own = counts_of(lowered.as_text())
            functions = lowered.as_text().count("func.func") - 1
            counts |= {"operations": own["operations"] + FUNCTION * functions, "first": first / 1e3}
    return counts | ({"repeated": repeated} if repeated <= AS_WRITTEN else {})


def of_step(name: str, engine: str) -> dict[str, int]:
    """Returns the counts of a step under ``portable``: ``operations`` and ``copied``."""
    step, args = STEPS[name]()
    with impl.deterministic(guarantee="portable"), impl.testing.engine(engine):
        return counts_of(jax.jit(step).lower(*args).as_text())


def python_calls(function: Callable[[], _T]) -> tuple[int, _T]:
    """Returns how often Python calls a function while one runs, and the result."""
    number, collects = 0, gc.isenabled()

    def count(_: object, event: str, __: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # The finalisers of collected objects are calls too.
    sys.setprofile(count)
    try:
        result = function()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return number, result


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


@functools.cache
def budgets(kind: str) -> Mapping[str, Mapping[str, float]]:
    """Returns the budgets of ``calls`` or of ``steps``, by name and count."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    of_kind: Mapping[str, Mapping[str, float]] = tables[kind]
    return of_kind


def faults(kind: str, name: str, counts: Mapping[str, float]) -> Iterator[str]:
    """Yields the counts that exceed their budgets, and the budgets that are too wide."""
    budget = budgets(kind).get(name, {})
    if budget.keys() != counts.keys():
        yield f"{name} has the counts {dict(counts)} and the budgets {dict(budget)}"
        return
    for key, count in counts.items():
        factor, more = _SLACK_OF_STEPS if kind == "steps" else _SLACK[key]
        if count > budget[key]:
            yield f"{name} takes {count} {key}, and its budget is {budget[key]}"
        elif budget[key] > factor * count + more:
            yield f"{name} takes {count} {key}: lower its budget, which is {budget[key]}"
