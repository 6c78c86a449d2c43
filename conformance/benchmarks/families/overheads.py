"""The cost of a call besides its computation: eager calls, tracing and lowering, the import."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import jax

import impl
from conformance.benchmarks import eager_calls
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.eager_calls import Call
from conformance.benchmarks.sides import Side

TITLE = "Eager calls of small arrays, tracing and lowering, and the import"
BASE = "plain JAX"
#: The side with the mode off.
_OFF = "mode off"
OURS = "ordered"
REMARKS = (
    "A time of an eager call is the mean of several calls in a row.",
    "`plain JAX` is the nearest function; in lines with `own`, it is the op inside `jax.jit`.",
    "Tracing and lowering is timed on a first call: all traces are forgotten before each.",
    "The import runs in a new process: of JAX, and of JAX and this library.",
)
#: The number of calls in a row whose mean is one time.
CALLS = 20
#: The programs of the import, by side; none to leave it out.
IMPORTS = {BASE: "import jax, jax.numpy", OURS: "import jax, jax.numpy, impl"}

_SCOPES = {
    BASE: functools.partial(impl.deterministic, False),
    _OFF: functools.partial(impl.deterministic, False),
    OURS: functools.partial(impl.deterministic, profile="complete"),
}


def cases(setting: Setting) -> Iterator[Case]:
    """Yields the import, and every op: called, and traced and lowered."""
    if IMPORTS:
        sides = {name: functools.partial(_import, program) for name, program in IMPORTS.items()}
        yield Case({"op": "import", "work": "import", "beside": "JAX"}, sides, OURS, few=True)
    for call in itertools.islice(eager_calls.calls(), 8 if setting.quick else None):
        yield _case(call, "call", _calling)
        if all(_can_be_traced(call, scope) for scope in _SCOPES.values()):
            yield _case(call, "trace and lower", _lowering)


def _case(call: Call, work: str, side: Callable[..., Side]) -> Case:
    functions = {BASE: call.equivalent(), _OFF: call.ours, OURS: call.ours}
    sides = {name: side(function, call.arrays, name) for name, function in functions.items()}
    about = {"op": call.op, "work": work, "beside": "own" if call.plain is None else "JAX"}
    return Case(about, sides, OURS, few=True)


def _calling(function: Callable[..., Any], arrays: tuple[Any, ...], name: str) -> Side:
    def side() -> float:
        with _SCOPES[name]():
            start = time.perf_counter()
            for _ in range(CALLS):
                out = function(*arrays)
            jax.block_until_ready(out)
            return (time.perf_counter() - start) * 1e3 / CALLS

    return side


def _lowering(function: Callable[..., Any], arrays: tuple[Any, ...], name: str) -> Side:
    def side() -> float:
        def program(*arrays: Any) -> Any:  # A new function, which JAX has not traced.
            return function(*arrays)

        jax.clear_caches()  # The functions that the program calls have not been traced either.
        with _SCOPES[name]():
            start = time.perf_counter()
            jax.jit(program).lower(*arrays)
            return (time.perf_counter() - start) * 1e3

    return side


def _can_be_traced(call: Call, scope: Callable[[], AbstractContextManager[Any]]) -> bool:
    """Returns whether the shape of a result does not depend on values."""
    try:
        with scope():
            for function in (call.ours, call.equivalent()):
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
