"""Whole programs, compiled for a GPU with the mode on and with it off, and their budgets.

The code of a program under ``portable`` may contract nothing, flush no subnormals, approximate
nothing, call no library, and have no product of float64 where the GPU has another engine
(``spec/engines.toml``). A call of an op under ``run_to_run`` may not race. ``budgets.toml`` has the
most launches and bytes of each program (``launches``)::

    [portable.transformer]
    h200 = { launches = 340, bytes = 5_500_000 }

A call that has a kernel is compiled a third time without kernels, as where JAX lacks Pallas' Triton
backend. It may have none then.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax

import impl
from conformance.lab.compiled import DEVICE, compiler, programs, row_calls
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.compiled.launches import Cost, cost_of
from conformance.lab.compiled.programs import Call
from conformance.lab.compiled.row_calls import CheckedCall, CompiledProgram
from conformance.lab.readers import hlo, ptx, stablehlo
from impl._exact import arithmetic
from impl._kernels import pallas
from impl._reading import hlo as parser
from spec import gpus
from spec.engines import DEFAULT, engine_of

#: Approximations of every kind, and sums and products that the assembler may contract, since they
#: do not state a rounding.
_INEXACT = re.compile(r"(?<![\w.%])(\w+\.approx[\w.]*|(?:add|sub|mul|mad)\.f(?:32|64))\s")
#: The op of the records about elementary functions.
ELEMENTARY = "impl._exact.elementary"


def check_program(name: str, target: str) -> CheckedCall:
    """Compiles and checks one of ``programs.PROGRAMS`` or ``programs.CALLS`` for a GPU."""
    start = time.perf_counter()
    try:
        faults, sides = _read(name, target)
    except Exception as error:  # noqa: BLE001  # compilers raise many errors, which a record reports
        faults, sides = [f"it does not compile: {type(error).__name__}: {error}"], {}
    if sides:
        faults += _over_budget(name, target, sides[""])
    detail = "; ".join(f"{side} {cost}".strip() for side, cost in sides.items())
    return _checked(name, name, target, faults, time.perf_counter() - start, detail)


def _read(name: str, target: str) -> tuple[list[str], dict[str, Cost]]:
    """Returns the faults of the code of a program, and the cost of each side of it."""
    is_portable = name in programs.PROGRAMS
    on = functools.partial(
        impl.deterministic,
        profile="complete",
        guarantee="portable" if is_portable else "run_to_run",
    )
    call = {**programs.PROGRAMS, **programs.CALLS}[name]
    code = _compiled(call, target, on())
    off = _compiled(call, target, impl.deterministic(False))
    sides = {"": cost_of(code.hlo), "with the mode off": cost_of(off.hlo)}
    faults = faults_of(code, target) if is_portable else list(row_calls.races(code))
    if name in programs.STEPS and not faults_of(off, target):
        faults.append("the check finds no fault in the code with the mode off, which has many")
    if not is_portable and stablehlo.kernels(code.lowered):
        jax.clear_caches()  # Both programs have the same equations.
        with mock.patch.object(pallas, "reason_missing", return_value="it is hidden"):
            hidden = _compiled(call, target, on())
        sides["without kernels"] = cost_of(hidden.hlo)
        faults += [f"without kernels it launches {x}" for x in stablehlo.kernels(hidden.lowered)]
    return faults, sides


def check_elementary(target: str, words: Sequence[str]) -> list[CheckedCall]:
    """Compiles and checks the elementary functions for a GPU; arguments as for ``check_op``."""
    calls = []
    for name, call in programs.elementary().items():
        if row_calls.is_selected(name_of(name), words):
            start = time.perf_counter()
            with arithmetic.wide():
                code = _compiled(call, target, contextlib.nullcontext())
            faults = faults_of(code, target)
            seconds = time.perf_counter() - start
            calls.append(_checked(ELEMENTARY, name, target, faults, seconds))
    return calls


def name_of(program: str) -> str:
    """Returns the name by which ``-k`` picks a program: ``program-index_add``."""
    return f"program-{program}"


def _compiled(
    call: Callable[[], Call], target: str, scope: contextlib.AbstractContextManager[Any]
) -> MachineCode:
    function, arguments = call()
    with scope:
        return compiler.compile_call(function, arguments, target, compiler.NO_AUTOTUNING)


def _checked(
    op: str, name: str, target: str, faults: Sequence[str], seconds: float, detail: str = ""
) -> CheckedCall:
    about = {"op": op, "device": DEVICE, "behaviour": "deterministic"}
    program = CompiledProgram(seconds=seconds)
    return CheckedCall(name_of(name), target, about, program, tuple(faults), detail=detail)


def faults_of(code: MachineCode, target: str) -> list[str]:
    """Returns the instructions and calls whose results depend on the device, each once."""
    text = "\n".join(dict.fromkeys(code.kernels.values()))
    if not text:
        return ["it has no kernel"]
    found = [*ptx.contractions(text), *ptx.approximations(text), *_INEXACT.findall(text)]
    found += [f"a call of {name}" for name in hlo.library_calls(code.hlo)]
    if engine_of(DEVICE, capability=gpus.capability(target)) != DEFAULT:
        found += [
            f"a product of float64 to {each.shapes[0]}"
            for each in parser.parse(code.hlo)
            if each.opcode == "dot" and each.result.startswith("f64[")
        ]
    return list(dict.fromkeys(found))


def _over_budget(name: str, target: str, cost: Cost) -> Iterator[str]:
    budget = programs.BUDGETS[name][target]
    if cost.launches > budget["launches"] or cost.moved > budget["bytes"]:
        most = Cost(budget["launches"], budget["bytes"])
        yield f"{cost}, and its budget in {programs.FILE} is {most}"
