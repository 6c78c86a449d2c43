"""What each row says, tried: nothing here knows what any row says."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from types import ModuleType
from typing import Any

import pytest

import spec
from conformance import ir, trial
from conformance.cells import Cell
from spec import oracles

EVERY = (None, *spec.BEHAVIOURS)


def mode(namespace: ModuleType, cell: Cell, **options: Any) -> Any:
    """A scope with the mode on, under the cell's profile."""
    return namespace.deterministic(True, profile=cell.profile, **options)


def program(namespace: ModuleType, cell: Cell) -> tuple[Any, tuple[Any, ...]]:
    """The function that a cell tries, and its inputs."""
    return cell.sample.function(namespace, cell.direction), cell.sample.inputs(cell.direction)


def call(cell: Cell, way: str = "native") -> tuple[Hashable, ...]:
    """What is called and how it is run, whichever profile holds."""
    return cell.sample, cell.direction, way


def ways(namespace: ModuleType, cell: Cell) -> list[str]:
    """The ways to run a cell here; skips where there is none."""
    found = trial.lowerings(namespace, cell.device)
    if not found:
        pytest.skip(f"nothing here can run what {cell.device} would")
    return found


@pytest.mark.about(*EVERY, profiles="one")  # with the mode off they do not differ
def test_off(namespace: ModuleType, cell: Cell, record: Any) -> None:
    """With the mode off the op runs, and is right up to rounding."""
    function, inputs = program(namespace, cell)
    for way in ways(namespace, cell)[:1]:
        record(cell, "off", lowering=way)
        with namespace.deterministic(False), trial.running(cell.device, way):
            result = trial.prepare(function, inputs, call(cell, way), exact=False)()
        cell.sample.judge(cell.direction, result)


@pytest.mark.about("deterministic")
def test_bits(namespace: ModuleType, cell: Cell, repeats: int, record: Any) -> None:
    """With the mode on, every lowering and every run gives the bits of the order's oracle.

    Where the row promises no more than the bits of another run, those are what is compared.
    """
    function, inputs = program(namespace, cell)
    assert cell.row is not None
    assert cell.row.order is None or hasattr(oracles, cell.row.order)
    wanted, before = None, dict[str, str]()
    if cell.row.guarantee == "portable":
        oracle = cell.sample.oracle(cell.direction)
        assert oracle is not None, f"the sample {cell.sample.name!r} has no oracle: add `ordered`"
        wanted = trial.bits(oracle(*inputs))
    for way in ways(namespace, cell):
        evidence = "hardware" if way == "native" else "scheduled"
        record(cell, "bits", lowering=way, evidence=evidence, sha256=wanted)
        with mode(namespace, cell), trial.running(cell.device, way):
            run = trial.prepare(function, inputs, call(cell, way))
            for _ in range(repeats if way == "native" else 1):
                result = run()
                found = trial.bits(result)
                # A lowering and its permuted schedule are one program.
                assert found == (wanted or before.setdefault(way.partition(",")[0], found)), (
                    f"{cell.op} on {cell.device}, lowering {way!r}, differs from "
                    + (f"the oracle of the order {cell.row.order!r}" if wanted else "a run before")
                )
        cell.sample.judge(cell.direction, result)


@pytest.mark.about("deterministic", device="cuda")  # XLA's scatter on a CPU is serial
def test_no_race(namespace: ModuleType, cell: Cell, record: Any) -> None:
    """With the mode on, the program lowered for CUDA has no operation that depends on timing."""
    record(cell, "no race", evidence="static")
    function, inputs = program(namespace, cell)
    with mode(namespace, cell):
        assert ir.races(trial.lower(function, inputs, cell.device, call(cell))) == []


@pytest.mark.about("raise")
def test_raise(namespace: ModuleType, cell: Cell, record: Any) -> None:
    """With the mode on, lowering raises, naming the row's caller and the ways out."""
    record(cell, "raise")
    function, inputs = program(namespace, cell)
    assert cell.row is not None
    assert cell.row.caller is not None
    with mode(namespace, cell), pytest.raises(RuntimeError) as caught:
        trial.lower(function, inputs, cell.device)
    said = str(caught.value)
    assert said.startswith(f"{cell.row.caller} does not have a deterministic implementation")
    for word in (cell.profile, cell.row.id, "deterministic(False)", "warn_only=True", "complete"):
        assert word in said
    # Off for this call alone is a way out, as the message says.
    with mode(namespace, cell), namespace.deterministic(False):
        trial.lower(function, inputs, cell.device, call(cell))


@pytest.mark.about("raise")
def test_warn_only(namespace: ModuleType, cell: Cell, record: Any) -> None:
    """With ``warn_only``, lowering warns instead, and the result is right."""
    record(cell, "warn only")
    function, inputs = program(namespace, cell)
    assert cell.row is not None
    with mode(namespace, cell, warn_only=True):
        said = trial.alerts(function, inputs, cell.device)
        assert said, "nothing was said"
        assert all(text.startswith(f"{cell.row.caller} does not have") for text in said)
        for way in ways(namespace, cell)[:1]:
            with trial.running(cell.device, way), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                result = trial.prepare(function, inputs, call(cell, way), exact=False)()
            cell.sample.judge(cell.direction, result)


@pytest.mark.about(None)
def test_unlisted(namespace: ModuleType, cell: Cell, record: Any) -> None:
    """What the profile does not list is unaffected: the program is the one with the mode off."""
    record(cell, "unlisted")
    function, inputs = program(namespace, cell)
    with namespace.deterministic(False):
        off = trial.lower(function, inputs, cell.device, call(cell))
    # Not the program of ``off``, whatever was answered: the mode could reach it by another way.
    with mode(namespace, cell):
        on = trial.lower(function, inputs, cell.device, (*call(cell), "on"))
    assert ir.without_kernel_code(on) == ir.without_kernel_code(off)
    assert ir.kernels(on) == ir.kernels(off)


@pytest.mark.about("fill")
def test_fill(namespace: ModuleType, cell: Cell, record: Any) -> None:
    """With the mode on, fresh memory holds the known value, in every bit."""
    function, inputs = program(namespace, cell)
    assert cell.sample.filled is not None, f"the sample {cell.sample.name!r} lacks `filled`"
    wanted = trial.bits(cell.sample.filled(*inputs))
    for way in ways(namespace, cell):
        record(cell, "fill", lowering=way, sha256=wanted)
        with mode(namespace, cell), trial.running(cell.device, way):
            result = trial.prepare(function, inputs, call(cell, way))()
        assert trial.bits(result) == wanted
        cell.sample.judge(cell.direction, result)
