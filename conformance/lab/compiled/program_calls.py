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
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax

import impl
from conformance.lab.compiled import DEVICE, compiler, programs, row_calls
from conformance.lab.compiled.compiler import MachineCode
from conformance.lab.compiled.launches import Cost, cost_of
from conformance.lab.compiled.programs import Call
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


def check_program(name: str, target: str) -> tuple[list[str], str]:
    """Returns the faults of the code of a program or call for a GPU, and its cost in words."""
    try:
        faults, sides = _read(name, target)
    except Exception as error:  # noqa: BLE001  # compilers raise many errors, which a record reports
        faults, sides = [f"it does not compile: {type(error).__name__}: {error}"], {}
    if sides:
        faults += _over_budget(name, target, sides[""])
    return faults, "; ".join(f"{side} {cost}".strip() for side, cost in sides.items())


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


def check_elementary(target: str) -> tuple[list[str], int]:
    """Returns the faults of the elementary functions for a GPU, and the number of programs."""
    faults, functions = [], programs.elementary()
    for name, call in functions.items():
        with arithmetic.wide():
            code = _compiled(call, target, contextlib.nullcontext())
        faults += [f"{name}: {fault}" for fault in faults_of(code, target)]
    return faults, len(functions)


def _compiled(
    call: Callable[[], Call], target: str, scope: contextlib.AbstractContextManager[Any]
) -> MachineCode:
    function, arguments = call()
    is_long = any(map(arithmetic.is_long, (each.dtype for each in jax.tree.leaves(arguments))))
    with scope, arithmetic.wide() if is_long else contextlib.nullcontext():
        return compiler.compile_call(function, arguments, target, compiler.NO_AUTOTUNING)


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
