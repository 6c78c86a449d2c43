"""What each row says, tried: nothing here knows what any row says."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import spec
from conformance import ir, trial
from conformance.cells import Cell
from conformance.hardware.round_context import RoundContext
from conformance.implementation import Implementation
from spec import oracles

EVERY = (None, *spec.BEHAVIOURS)
#: After how many runs of a program its arrays are placed on the device anew.
_ANEW = 10
ALERT = "does not have a deterministic implementation"


def mode(tried: Implementation, cell: Cell, **options: Any) -> Any:
    """A scope with the mode on, under the cell's profile."""
    return tried.mode(profile=cell.profile, **options)


def program(tried: Implementation, cell: Cell) -> tuple[Any, tuple[Any, ...]]:
    """The function that a cell tries, and its inputs."""
    return cell.sample.function(tried, cell.direction), cell.inputs


def ways(tried: Implementation, cell: Cell) -> list[str]:
    """The ways to run a cell here; skips where there is none."""
    found = list(tried.ways(cell.device))
    if not found:
        pytest.skip(f"nothing here can run what {cell.device} would")
    return found


def judge(tried: Implementation, cell: Cell, result: Any) -> None:
    """Compares with what is right, unless that is right of this project alone."""
    if tried.own or cell.direction not in cell.sample.own:
        cell.sample.judge(cell.direction, result)


def alerts(tried: Implementation, cell: Cell) -> list[str]:
    """What is said, as warnings, when a call is attempted."""
    function, inputs = program(tried, cell)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tried.attempt(function, inputs, cell.device)
    every = [str(one.message) for one in said if one.category is UserWarning]
    return every if tried.own else [text for text in every if ALERT in text]


def starts(cell: Cell) -> str:
    """What an alert of a cell begins with, as far as the rows say it."""
    caller = cell.rule.caller if cell.rule else None
    return f"{caller} {ALERT}" if caller else ""


@pytest.mark.about(*EVERY, profiles="one")  # with the mode off they do not differ
def test_off(implementation: Implementation, cell: Cell, record: Any) -> None:
    """With the mode off the op runs, and is right up to rounding."""
    function, inputs = program(implementation, cell)
    for way in ways(implementation, cell)[:1]:
        record(cell, "off", lowering=way)
        with implementation.mode(False), implementation.running(cell.device, way):
            result = implementation.prepare(function, inputs, cell.call(way), exact=False)()
        judge(implementation, cell, result)


@pytest.mark.again
@pytest.mark.about("deterministic")
def test_bits(
    implementation: Implementation,
    cell: Cell,
    repeats: int,
    record: Any,
    round_context: RoundContext,
) -> None:
    """With the mode on, every lowering and every run gives the bits of the order's oracle.

    Where the row promises no more than the bits of another run, those are what is compared, and
    so they are of an implementation that has orders of its own.
    """
    function, inputs = program(implementation, cell)
    assert cell.rule is not None
    assert cell.rule.order is None or hasattr(oracles, cell.rule.order)
    wanted, before = None, dict[str, str]()
    if cell.rule.guarantee == "portable" and implementation.keeps_orders:
        oracle = cell.sample.oracle(cell.direction)
        assert oracle is not None, f"the sample {cell.sample.name!r} has no oracle: add `ordered`"
        wanted = trial.bits(oracle(*inputs))
    right = f"the oracle of the order {cell.rule.order!r}" if wanted else "a run before"
    for way in ways(implementation, cell):
        evidence = "hardware" if way == "native" else None
        entry = record(cell, f"bits{round_context.check_suffix}", lowering=way, evidence=evidence)
        with mode(implementation, cell), implementation.running(cell.device, way):
            run = implementation.prepare(function, inputs, cell.call(way))
            with round_context.under_load():
                for number in range(repeats if way == "native" else 1):
                    if number % _ANEW == _ANEW - 1:  # the program is known, the arrays are others
                        run = implementation.prepare(function, inputs, cell.call(way))
                    result = run()
                    entry["sha256"] = found = trial.bits(result)
                    assert found == (wanted or before.setdefault(way, found)), (
                        f"{cell.op} on {cell.device}, lowering {way!r}, differs from {right}"
                    )
        judge(implementation, cell, result)
        if round_context.other_work and way == "native":
            entry.setdefault("detail", f"{repeats} runs beside {round_context.other_work}")


@pytest.mark.about("deterministic", device="cuda")  # XLA's scatter on a CPU is serial
def test_no_race(implementation: Implementation, cell: Cell, record: Any) -> None:
    """With the mode on, the program lowered for CUDA has nothing that depends on timing.

    Nor does it have a loop over updates.
    """
    if not implementation.can_lower:
        pytest.skip("it has no programs to read")
    record(cell, "no race", evidence="static")
    function, inputs = program(implementation, cell)
    with mode(implementation, cell):
        lowered = implementation.program(function, inputs, cell.device, cell.call())
    found = ir.races(lowered)
    assert not found, f"as lowered for {cell.device} it depends on timing: {', '.join(found)}"
    # Serial updates have an order as well, and take for ever on a GPU.
    found = ir.long_loops(lowered) if implementation.own else []
    assert not found, f"as lowered for {cell.device} it loops over updates: {', '.join(found)}"


@pytest.mark.about("raise")
def test_raise(implementation: Implementation, cell: Cell, record: Any) -> None:
    """With the mode on, the call raises, naming the row's caller and the ways out."""
    record(cell, "raise")
    function, inputs = program(implementation, cell)
    assert cell.rule is not None
    assert cell.rule.caller is not None or cell.instead
    with mode(implementation, cell), pytest.raises(RuntimeError) as caught:
        implementation.attempt(function, inputs, cell.device)
    said = str(caught.value)
    assert said.startswith(starts(cell))
    words = (cell.profile, cell.rule.id, "deterministic(False)", "warn_only=True", "complete")
    for word in (*words, ALERT) if implementation.own else (ALERT,):
        assert word in said
    # Off for this call alone is a way out, as the message says.
    with mode(implementation, cell), implementation.mode(False):
        implementation.attempt(function, inputs, cell.device, cell.call())


@pytest.mark.about("raise")
def test_warn_only(implementation: Implementation, cell: Cell, record: Any) -> None:
    """With ``warn_only``, the call warns instead, and the result is right."""
    record(cell, "warn only")
    function, inputs = program(implementation, cell)
    with mode(implementation, cell, warn_only=True):
        said = alerts(implementation, cell)
        assert said, "nothing was said"
        assert all(text.startswith(starts(cell)) for text in said)
        for way in ways(implementation, cell)[:1]:
            with implementation.running(cell.device, way), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                result = implementation.prepare(function, inputs, cell.call(way), exact=False)()
            judge(implementation, cell, result)


@pytest.mark.about(None)
def test_unlisted(implementation: Implementation, cell: Cell, record: Any) -> None:
    """What the profile does not list is unaffected: the program is the one with the mode off.

    Where there are no programs to compare, nothing is said and the result is right; on a CPU, it
    has the bits of the one with the mode off.
    """
    record(cell, "unlisted")
    function, inputs = program(implementation, cell)
    if not implementation.can_lower:
        with mode(implementation, cell, warn_only=True):
            assert alerts(implementation, cell) == []
        with implementation.running(cell.device, "native"):
            run = implementation.prepare(function, inputs, cell.call())
            with mode(implementation, cell):
                result = run()
            judge(implementation, cell, result)
            # A GPU may give other bits at each run, and fresh memory holds anything.
            if cell.device == "cpu" and cell.sample.filled is None:
                with implementation.mode(False):
                    assert trial.bits(result) == trial.bits(run())
        return
    with implementation.mode(False):
        off = implementation.program(function, inputs, cell.device, cell.call())
    # Not the program of ``off``, whatever was answered: the mode could reach it by another way.
    with mode(implementation, cell):
        on = implementation.program(function, inputs, cell.device, (*cell.call(), "on"))
    assert ir.without_kernel_code(on) == ir.without_kernel_code(off)
    assert ir.kernels(on) == ir.kernels(off)


@pytest.mark.about("fill")
def test_fill(implementation: Implementation, cell: Cell, record: Any) -> None:
    """With the mode on, fresh memory holds the known value, in every bit."""
    function, inputs = program(implementation, cell)
    assert cell.sample.filled is not None, f"the sample {cell.sample.name!r} lacks `filled`"
    wanted = trial.bits(cell.sample.filled(*inputs))
    for way in ways(implementation, cell):
        record(cell, "fill", lowering=way, sha256=wanted)
        with mode(implementation, cell), implementation.running(cell.device, way):
            result = implementation.prepare(function, inputs, cell.call(way))()
        assert trial.bits(result) == wanted
        judge(implementation, cell, result)
