"""Orders that are the hardware's to choose, tried: nothing here knows what any row says.

What the mode makes deterministic must have the same bits in all of them; and where a row says that
nothing is guaranteed with the mode off, some call must have several, or neither the row nor these
tests are worth anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance import ir, trial
from conformance.cells import Cell
from conformance.hardware.round_context import RoundContext
from conformance.implementation import Implementation

#: The stand-in that interprets kernels, and so can choose the order of their programs.
KERNEL = "kernel"


def of_ours(implementation: Implementation) -> None:
    """Skips where there is nothing whose order could be chosen."""
    if not implementation.own:
        pytest.skip("the atomic path and its kernels are this project's alone")


@pytest.mark.about("deterministic", device="cuda")
def test_schedules(implementation: Implementation, cell: Cell, record: Any) -> None:
    """With the mode on, kernels give the same bits in whatever order their programs run."""
    of_ours(implementation)
    if KERNEL not in implementation.ways(cell.device):
        pytest.skip("here kernels run as the hardware has them")
    function, inputs = cell.sample.function(implementation, cell.direction), cell.inputs
    with implementation.mode(profile=cell.profile):
        lowered = implementation.program(function, inputs, cell.device, cell.call())
        if not ir.kernels(lowered):
            return  # Nothing runs in an order of its own, which is no evidence of anything.
        entry = record(cell, "schedules", lowering=KERNEL, evidence="scheduled")
        with implementation.running(cell.device, KERNEL):
            found = trial.scheduled(function, inputs, cell.call(KERNEL))
    entry["sha256"], entry["detail"] = found[0], f"{len(found)} schedules"
    other = next((seed for seed, bits in enumerate(found) if bits != found[0]), None)
    assert other is None, (
        f"{cell.op} on {cell.device} has {len(set(found))} results in {len(found)} schedules: what "
        f"impl.testing.schedule({other}) gives differs from the order of the program ids"
    )


@pytest.mark.about("deterministic", device="cuda")
def test_race_is_stated(implementation: Implementation, cell: Cell, record: Any) -> None:
    """Where the program with the mode off depends on timing, the row says so."""
    of_ours(implementation)
    assert cell.row is not None
    record(cell, "race is stated")
    function, inputs = cell.sample.function(implementation, cell.direction), cell.inputs
    with implementation.mode(False):
        found = ir.races(implementation.program(function, inputs, cell.device, cell.call()))
    assert cell.row.mode_off or not found, (
        f"{found} depend on timing with the mode off: {cell.row.id} needs mode_off = "
        '"not_guaranteed"'
    )


def test_varies(
    implementation: Implementation,
    calls: Sequence[Cell],
    repeats: int,
    record: Any,
    round_context: RoundContext,
) -> None:
    """Where a row guarantees nothing with the mode off, some call of it has several results."""
    of_ours(implementation)
    racing = [cell for cell in calls if _races(implementation, cell)]
    row = calls[0].row
    assert row is not None
    assert racing, f"nothing that {row.id} speaks of depends on timing; it has no `mode_off`"
    way = implementation.ways(racing[0].device)[0]
    entry = record(racing[0], "varies", lowering=way)
    count = 1
    for cell in racing:
        entry.update(cell.about)
        with round_context.under_load():
            count = len(set(_results(implementation, cell, way, repeats)))
        if count > 1:
            break
    entry["detail"] = f"{count} results with the mode off"
    # A GPU may keep to one order for as long as one watches.
    assert count > 1 or way == "native", (
        f"with the mode off {row.id} gives the same bits in all {len(trial.SCHEDULES)} schedules: "
        "add a sample in which at least three roughly equal numbers meet, or the row has no "
        "`mode_off`"
    )


def _races(implementation: Implementation, cell: Cell) -> bool:
    function = cell.sample.function(implementation, cell.direction)
    with implementation.mode(False):
        program = implementation.program(function, cell.inputs, cell.device, cell.call())
    return bool(ir.races(program))


def _results(implementation: Implementation, cell: Cell, way: str, repeats: int) -> Sequence[str]:
    """The SHA-256 of each result of a call with the mode off."""
    function = cell.sample.function(implementation, cell.direction)
    with implementation.mode(False), implementation.running(cell.device, way):
        if way != "native":
            return trial.scheduled(function, cell.inputs, cell.call(way), exact=False)
        run = implementation.prepare(function, cell.inputs, cell.call())
        return [trial.bits(run()) for _ in range(repeats)]
