"""The cost of a call besides its computation: eager calls, tracing and lowering, the import.

The small calls are the first calls with a name in the table of operations. Their arrays are so
small that the computation takes no time: a benchmark of these calls measures the work of Python and
of JAX around it. For ``index_copy``,

    Call("index_copy", ours, plain, arrays)

``ours`` is ``impl.index_copy(x, 0, i, s)`` and ``plain`` is ``x.at[i].set(s)``, of 69 numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import impl
from conformance.adapters.base import resolve
from conformance.benchmarks.engine import MODE_OFF, MODE_ON, Benchmark, Case, Scope, Setting
from conformance.benchmarks.torch_peer import Side
from conformance.cases import _calls
from conformance.cases.table import table

#: The number of calls in a row whose mean is one time.
CALLS = 20
#: The programs of the import, by side; none to leave it out.
IMPORTS = {"plain JAX": "import jax, jax.numpy", "ordered": "import jax, jax.numpy, impl"}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an op, and its arrays.

    ``plain`` is the same function of plain JAX, or the nearest; None where JAX has none.
    """

    op: str
    ours: Callable[..., Any]
    plain: Callable[..., Any] | None
    arrays: tuple[Any, ...]


def calls() -> Iterator[Call]:
    """Yields a call of every public op."""
    for op, entry in table().items():
        call = _calls.first_call(op)
        plain = entry.plain and functools.partial(entry.plain, jax)
        yield Call(op, _ours(call), plain, tuple(map(jnp.asarray, call.arrays)))


def _ours(call: _calls.Call) -> Callable[..., Any]:
    """Returns a call as a function of its arrays, with little work around it."""
    function, arguments, options = resolve(impl, call.op), *call.with_arrays(call.arrays)
    positions = [i for i, each in enumerate(arguments) if _calls.is_array(each)]
    if call.form.call is not None or len(positions) < len(call.arrays):
        return functools.partial(call.run, impl)

    def ours(*arrays: Any) -> Any:
        given = list(arguments)
        for position, array in zip(positions, arrays):  # noqa: B905  # it would take time
            given[position] = array
        return function(*given, **options)

    return ours


def overheads(setting: Setting) -> Iterator[Case]:
    """Yields the import, and every op: called, and traced and lowered."""
    if IMPORTS:
        sides = {name: functools.partial(_import, program) for name, program in IMPORTS.items()}
        yield Case({"op": "import", "work": "import", "beside": "JAX"}, sides, few=True)
    for call in itertools.islice(calls(), 8 if setting.quick else None):
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
