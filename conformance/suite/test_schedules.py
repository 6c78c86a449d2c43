"""Tests calls under adversarial schedules. The tests read the rows and repeat none of them.

A call that the mode makes deterministic must have the same bits under every schedule. A row may
state that nothing is guaranteed with the mode off. Some call of it must then have several results:
otherwise the statement is wrong, or the schedules cannot show a race.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance import bits
from conformance.adapters.base import Adapter
from conformance.lab.readers import stablehlo
from conformance.suite.cells import Cell

#: The stand-in that interprets kernels, and so can choose the order of their programs.
KERNEL = "kernel"


def skip_others(implementation: Adapter) -> None:
    """Skips an implementation that has no schedules."""
    if not implementation.of_this_project:
        pytest.skip("the atomic path and its kernels are this project's alone")


@pytest.mark.about("deterministic", device="cuda")
def test_schedules(implementation: Adapter, cell: Cell, record: Any) -> None:
    """With the mode on, kernels and scatters give the same bits under every schedule."""
    skip_others(implementation)
    if KERNEL not in implementation.lowerings(cell.device):
        pytest.skip("here kernels run as the hardware has them")
    function, inputs = cell.sample.function(implementation, cell.direction), cell.inputs
    with implementation.mode(profile=cell.profile):
        program = implementation.program(function, inputs, cell.device, cell.call())
        if not stablehlo.has_schedule(program):
            return  # Every schedule of it is the same, which is not evidence.
        entry = record(cell, "schedules", lowering=KERNEL, evidence="scheduled")
        with implementation.running(cell.device, KERNEL):
            digests = implementation.digests_by_schedule(
                function, inputs, cell.call(KERNEL), exact=False
            )
    entry["sha256"], entry["detail"] = digests[0], f"{len(digests)} schedules"
    other = next((seed for seed, digest in enumerate(digests) if digest != digests[0]), None)
    assert other is None, (
        f"{cell.op} on {cell.device} has {len(set(digests))} results in {len(digests)} schedules: "
        f"what impl.testing.schedule({other}) gives differs from the order of the program ids"
    )


@pytest.mark.about("deterministic", device="cuda")
def test_race_is_stated(implementation: Adapter, cell: Cell, record: Any) -> None:
    """The row states that nothing is guaranteed where the program with the mode off races."""
    skip_others(implementation)
    assert cell.row is not None
    record(cell, "race is stated")
    races = _races(implementation, cell)
    assert cell.row.mode_off or not races, (
        f"{races} depend on timing with the mode off: {cell.row.id} needs mode_off = "
        '"not_guaranteed"'
    )


def test_varies(
    implementation: Adapter,
    calls: Sequence[Cell],
    repeats: int,
    record: Any,
    under_load: Any,
) -> None:
    """Some call of a row that guarantees nothing with the mode off has several results."""
    skip_others(implementation)
    racing = [cell for cell in calls if _races(implementation, cell)]
    row = calls[0].row
    assert row is not None
    assert racing, f"nothing that {row.id} speaks of depends on timing; it has no `mode_off`"
    lowering = implementation.lowerings(racing[0].device)[0]
    entry = record(racing[0], "varies", lowering=lowering)
    digests: Sequence[str] = ()
    for cell in racing:
        entry.update(cell.about)
        with under_load():
            digests = _digests(implementation, cell, lowering, repeats)
        if len(set(digests)) > 1:
            break
    count = len(set(digests))
    entry["detail"] = f"{count} results with the mode off"
    # A GPU may keep one order for as long as the test runs.
    assert count > 1 or lowering == "native", (
        f"with the mode off {row.id} gives the same bits in all {len(digests)} schedules: add a "
        "sample in which at least three roughly equal numbers meet, or the row has no `mode_off`"
    )


def _races(implementation: Adapter, cell: Cell) -> list[str]:
    function = cell.sample.function(implementation, cell.direction)
    with implementation.mode(False):
        program = implementation.program(function, cell.inputs, cell.device, cell.call())
    return stablehlo.races(program)


def _digests(implementation: Adapter, cell: Cell, lowering: str, repeats: int) -> Sequence[str]:
    """Returns the digest of each result of a call with the mode off."""
    function = cell.sample.function(implementation, cell.direction)
    with implementation.mode(False), implementation.running(cell.device, lowering):
        if lowering != "native":
            return implementation.digests_by_schedule(
                function, cell.inputs, cell.call(lowering), exact=False
            )
        run = implementation.prepare(function, cell.inputs, cell.call())
        return [bits.digest(run()) for _ in range(repeats)]
