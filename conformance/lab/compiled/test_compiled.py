"""Compiles the calls of rows, whole programs and elementary functions for GPUs that are absent.

``python -m conformance compile`` runs this file alone. A fault that several calls of a row have
is printed once. A record is about all calls of a row that the mode treats alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import impl
from conformance.lab.compiled import DEVICE, PROGRAM_CHECK, program_calls, row_calls
from conformance.lab.compiled.row_calls import CompiledProgram
from conformance.suite.cells import Cell, cells, to_edit

#: The name of the check, by what the mode does. Only the first is evidence of determinism.
CHECKS = {
    "deterministic": "compiled",
    "raise": "compiled, warn only",
    "fill": "compiled, filled",
    None: "compiled, as with the mode off",
}
_MAX_DETAIL = 300


def test_program(name: str, target: str, record: Any) -> None:
    """The code of a whole program has no fault, and keeps its budget."""
    faults, detail = program_calls.check_program(name, target)
    _judge(record, _of_program(name), PROGRAM_CHECK, target, faults, detail)


def test_elementary(target: str, record: Any) -> None:
    """The code of each elementary function has no fault."""
    faults, count = program_calls.check_elementary(target)
    about = _of_program(program_calls.ELEMENTARY)
    _judge(record, about, PROGRAM_CHECK, target, faults, f"{count} programs, no kernels")


def _of_program(name: str) -> dict[str, Any]:
    return {"op": name, "device": DEVICE, "behaviour": "deterministic"}


def calls_of_rows() -> Mapping[str, list[Cell]]:
    """Returns the cells on a GPU of each row, direction and behaviour, by a name for all three."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells():
        if cell.device == DEVICE:
            row = cell.row.id if cell.row else "unlisted"
            name = f"{row}-{cell.op}-{cell.direction}-{cell.listed or 'unaffected'}"
            groups.setdefault(name, []).append(cell)
    return groups


def test_row(calls: Sequence[Cell], target: str, record: Any) -> None:
    """The code of the calls of a row has no fault, by the claims of the row."""
    programs: dict[int, CompiledProgram] = {}
    of_calls: dict[str, list[str]] = {}
    for cell in calls:
        for by_jit, program in row_calls.compiled(cell, target):
            programs[id(program)] = program
            name = f"{cell} by impl.jit" if by_jit else str(cell)
            for fault in row_calls.faults(cell, program):
                of_calls.setdefault(fault, []).append(name)
    faults = [
        f"{names[0]}{f', and {len(names) - 1} more calls' * (len(names) > 1)}: {fault}"
        for fault, names in of_calls.items()
    ]
    first = calls[0]
    profiles = {cell.profile for cell in calls}
    about = {**first.about, "sample": None}
    about["profile"] = profiles.pop() if len(profiles) == 1 else None
    detail = row_calls.in_words([*programs.values()])
    edit = to_edit(first.row, first.op, impl)
    _judge(record, about, CHECKS[first.listed], target, faults, detail, *edit)


def _judge(
    record: Any,
    about: Mapping[str, Any],
    check: str,
    target: str,
    faults: Sequence[str],
    detail: str,
    *edit: str,
) -> None:
    """Leaves the record of a check, and fails the test if there are faults."""
    evidence = "compiled" if about["behaviour"] == "deterministic" else None
    text = ("; ".join(faults) or detail)[:_MAX_DETAIL]
    record(SimpleNamespace(about=about), check, lowering=target, evidence=evidence, detail=text)
    if faults:
        pytest.fail("\n".join([*faults, *edit]), pytrace=False)
