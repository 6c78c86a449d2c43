"""Measures the cases of a family: sides in turns, and a copy of the same number of bytes.

Sides run in turns, so that a disturbance of the machine affects them alike. The copy tells what the
memory of the machine allows, at this size and at this time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from conformance.benchmarks import flagged_process
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.measurements import Measurement, Times
from conformance.benchmarks.sides import Program, RefusedError, Side, run

#: The number of rounds of a case: between these numbers, as many as fit into the seconds of a case.
LEAST_ROUNDS = 5
MOST_ROUNDS = 50
SECONDS = 4.0
SECONDS_QUICK = 0.5
#: The side that copies as many bytes as the arguments and the result have.
COPY = "copy"
#: The number of bytes of the greatest copy. Beyond, the time is proportional.
_MOST_COPIED = 1 << 30


def measure(name: str, family: ModuleType, setting: Setting) -> Iterator[Measurement]:
    """Measures every case of a family.

    Args:
        name: The name of the family.
        family: Its module.
        setting: How its cases are chosen.
    """
    seconds = SECONDS_QUICK if setting.quick else SECONDS
    with flagged_process.of_family(name, family, setting) as elsewhere:
        for case in family.cases(setting):
            yield measure_case(case, elsewhere(case), seconds=seconds)


def measure_case(
    case: Case, other_sides: Mapping[str, Side] | None = None, *, seconds: float = SECONDS
) -> Measurement:
    """Measures a case.

    Args:
        case: The case.
        other_sides: Sides that the case lacks, by name.
        seconds: The seconds in which rounds are run, if there are enough of them.
    """
    program = case.program
    sides: dict[str, Side] = {**case.sides, **(other_sides or {})}
    moved = program.floor_bytes if program is not None and not case.few else None
    if moved:
        sides[COPY] = _copy(min(moved, _MOST_COPIED))
    times, refused = _times(sides, seconds=seconds, few=case.few)
    copied = times.pop(COPY, None)
    scale = max(1.0, (moved or 0) / _MOST_COPIED)
    return Measurement(
        case=dict(case.about),
        sides=times,
        refused=refused,
        peak_bytes={n: s.peak_bytes for n, s in sides.items() if isinstance(s, Program)},
        temporary_bytes=None if program is None else program.temporary_bytes,
        floor_bytes=moved,
        copy_ms=None if copied is None else copied.median * scale,
        n=case.n,
    )


def _copy(moved: int) -> Program:
    """Returns a side that reads a half of the bytes and writes the other."""
    words = jnp.asarray(np.zeros(max(1, moved // 8), np.uint32))
    return run(jax.jit(lax.bitwise_not).lower(words).compile(), words)


def _times(
    sides: Mapping[str, Side], *, seconds: float, few: bool
) -> tuple[dict[str, Times], dict[str, str]]:
    """Returns the times of each side, and the message of each side that refuses the case."""
    running, refused = dict(sides), {}
    for name, side in sides.items():
        try:
            side()
        except RefusedError as error:
            refused[name] = str(error)
            del running[name]
    first = [_milliseconds(side) for side in running.values()]
    rounds = int(seconds * 1e3 / max(sum(first), 1e-6))
    rounds = 1 if few and rounds < LEAST_ROUNDS else max(LEAST_ROUNDS, min(rounds, MOST_ROUNDS))
    found: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(rounds):
        for name, side in running.items():
            found[name].append(_milliseconds(side))
    return {name: Times.of(each) for name, each in found.items()}, refused


def _milliseconds(side: Side) -> float:
    """Runs a side once. A side of another process returns the milliseconds that it took there."""
    start = time.perf_counter()
    result = side()
    own = (time.perf_counter() - start) * 1e3
    return result if isinstance(result, float) else own
