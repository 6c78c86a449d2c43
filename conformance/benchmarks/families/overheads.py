"""The cost of a call besides its computation: eager calls, tracing and lowering, the import."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from conformance.benchmarks import eager_calls
from conformance.benchmarks.eager_calls import Call
from conformance.benchmarks.engine import MODE_OFF, MODE_ON, Benchmark, Case, Scope, Setting
from conformance.benchmarks.torch_peer import Side

#: The number of calls in a row whose mean is one time.
CALLS = 20
#: The programs of the import, by side; none to leave it out.
IMPORTS = {"plain JAX": "import jax, jax.numpy", "ordered": "import jax, jax.numpy, impl"}


def overheads(setting: Setting) -> Iterator[Case]:
    """Yields the import, and every op: called, and traced and lowered."""
    if IMPORTS:
        sides = {name: functools.partial(_import, program) for name, program in IMPORTS.items()}
        yield Case({"op": "import", "work": "import", "beside": "JAX"}, sides, few=True)
    for call in itertools.islice(eager_calls.calls(), 8 if setting.quick else None):
        yield _case(call, "call", _calling)
        if _can_be_traced(call):
            yield _case(call, "trace and lower", _lowering)


def _case(call: Call, work: str, side: Callable[..., Side]) -> Case:
    beside = jax.jit(call.ours) if call.plain is None else call.plain
    sides = {
        "plain JAX": side(beside, call.arrays, MODE_OFF),
        "mode off": side(call.ours, call.arrays, MODE_OFF),
        "ordered": side(call.ours, call.arrays, MODE_ON),
    }
    about = {"op": call.op, "work": work, "beside": "own" if call.plain is None else "JAX"}
    return Case(about, sides, few=True)


def _calling(function: Callable[..., Any], arrays: tuple[Any, ...], scope: Scope) -> Side:
    def side() -> float:
        with scope():
            start = time.perf_counter()
            for _ in range(CALLS):
                out = function(*arrays)
            jax.block_until_ready(out)
            return (time.perf_counter() - start) * 1e3 / CALLS

    return side


def _lowering(function: Callable[..., Any], arrays: tuple[Any, ...], scope: Scope) -> Side:
    def side() -> float:
        def program(*arrays: Any) -> Any:  # A new function, which JAX has not traced.
            return function(*arrays)

        jax.clear_caches()  # The functions that the program calls have not been traced either.
        with scope():
            start = time.perf_counter()
            jax.jit(program).lower(*arrays)
            return (time.perf_counter() - start) * 1e3

    return side


def _can_be_traced(call: Call) -> bool:
    """Returns whether the shape of a result does not depend on values."""
    try:
        with MODE_ON():
            for function in filter(None, (call.ours, call.plain)):
                jax.eval_shape(function, *call.arrays)
    except (TypeError, IndexError):  # JAX raises both for a value that is unknown.
        return False
    return True


def _import(program: str) -> float:
    """Returns the milliseconds of imports in a new process."""
    code = (
        f"import time; start = time.perf_counter(); {program}\nprint(time.perf_counter() - start)"
    )
    result = subprocess.run(  # noqa: S603  # this program's own interpreter
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    return float(result.stdout) * 1e3


FAMILIES = {
    "overheads": Benchmark(
        "Eager calls of small arrays, tracing and lowering, and the import",
        "plain JAX",
        "ordered",
        overheads,
        (
            "A time of an eager call is the mean of several calls in a row.",
            "`plain JAX` is the nearest function; with `own`, it is the op inside `jax.jit`.",
            "Tracing and lowering is timed on a first call: all traces are forgotten before each.",
            "The import runs in a new process: of JAX, and of JAX and this library.",
        ),
    ),
}
