"""Shows costs: a line for each case, each launch of a program, and the table that is kept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from conformance.machine_code.costs.measured import CaseCost, Kernel, ProgramCost
from conformance.machine_code.hlo_costs import Launch
from conformance.reporting import report

_FOLDER = Path(__file__).parents[1]
#: The table that the site shows.
TABLE = _FOLDER / "costs.md"
#: The same as data, with each launch.
DATA = _FOLDER / "costs.json"
_HEADINGS = (
    *("case", "launches", "bytes", "floors", "loops", "sort", "plain: launches", "bytes"),
    *("off: launches", "bytes"),
)


def line(cost: CaseCost) -> str:
    """Returns a case in one line."""
    parts = [f"{side} {_short(cost, program)}" for side, program in cost.sides.items()]
    parts += [f"{side} cannot be counted" for side in cost.errors]
    return f"{cost.case}: {'; '.join(parts)} ({cost.seconds:.1f} s)"


def _short(cost: CaseCost, program: ProgramCost) -> str:
    floors = program.moved / max(1, cost.floor)
    return f"{program.launches} launches, {_bytes(program.moved)}, {floors:.1f} floors"


def summary(costs: Sequence[CaseCost]) -> Iterator[str]:
    """Yields the rows of the table, in Markdown."""
    yield f"| {' | '.join(_HEADINGS)} |"
    yield "| --- |" + " ---: |" * (len(_HEADINGS) - 1)
    for cost in costs:
        yield f"| {' | '.join(_cells(cost))} |"


def _cells(cost: CaseCost) -> list[str]:
    on, off, plain = (cost.sides.get(side) for side in ("on", "off", "plain"))
    if on is None:
        return [cost.case, *["?"] * (len(_HEADINGS) - 1)]
    floors = on.moved / max(1, cost.floor)
    cells = [cost.case, str(on.launches), _bytes(on.moved), f"{floors:.1f}", _loops(on), _sorts(on)]
    for other in (plain, off):
        if other is None:
            cells += ["", ""]
        else:
            ratio = on.moved / max(1, other.moved)
            cells += [str(other.launches), f"{_bytes(other.moved)} ({ratio:.1f})"]
    return cells


def _loops(program: ProgramCost) -> str:
    """Returns the rounds of XLA's loops, and the number of loops in kernels of Pallas."""
    counts = ["?" if loop.count is None else _bounded(loop) for loop in program.loops]
    inside = sum(kernel.loops or 0 for launch, kernel in program.parts if launch.kind == "Pallas")
    return " + ".join(counts + ([f"{inside} in kernels"] if inside else []))


def _bounded(loop: object) -> str:
    count, is_exact = getattr(loop, "count", None), getattr(loop, "is_exact", False)
    return f"{count}" if is_exact else f"at most {count}"


def _sorts(program: ProgramCost) -> str:
    kinds = dict.fromkeys(
        launch.kind.removesuffix("'s sort")
        for launch, _ in program.parts
        if launch.kind in {"CUB", "XLA's sort"}
    )
    return ", ".join(kinds)


def explanation(cost: CaseCost) -> Iterator[str]:
    """Yields each launch of each side of a case."""
    for side, program in cost.sides.items():
        yield f"{cost.case}, {side}: {_short(cost, program)} of {_bytes(cost.floor)}"
        for loop in program.loops:
            count = "unknown rounds" if loop.count is None else f"{_bounded(loop)} rounds"
            yield f"  loop {loop.name}: {count}; {loop.scope}"
        yield (
            "  launches          bytes  kind       programs x warps  regs  spill  shared  loops  "
            "instruction"
        )
        for launch, kernel in program.parts:
            yield f"  {_launch_line(launch, kernel)}"
    for side, error in cost.errors.items():
        yield f"{cost.case}, {side}: {error}"


def _launch_line(launch: Launch, kernel: Kernel) -> str:
    times = f"{launch.cost.launches}" + (f" x {launch.times}" if launch.times != 1 else "")
    size = "" if kernel.programs is None else f"{kernel.programs} x {kernel.warps}"
    numbers = (kernel.registers, kernel.spilled, kernel.shared, kernel.loops)
    registers, spilled, shared, loops = ("" if each is None else str(each) for each in numbers)
    return (
        f"{times:>8} {launch.total.moved:>14,}  {launch.kind:<10} {size:>16}  {registers:>4}  "
        f"{spilled:>5}  {shared:>6}  {loops:>5}  {launch.name}"
        + (f" [{launch.note}]" if launch.note else "")
        + (f" {launch.scope}" if launch.scope else "")
    )


def write(costs: Sequence[CaseCost], target: str) -> None:
    """Writes the table and the JSON."""
    plugin = "jax-cuda13-plugin"
    releases = f"jax {jax.__version__}, {plugin} {report.version(plugin)}"
    heading = [
        "# What ordered programs cost by their compiled code",
        "",
        f"- Compiled for one {target.upper()} by XLA of {releases}; nothing ran.",
        "- A floor: each operand read once and each result written once.",
        "- In brackets: the bytes with the mode on, in those of plain JAX or of the mode off.",
        "- Loops: the rounds of XLA's, and the loops in the code of kernels of Pallas.",
        "- Sort: CUB's, where XLA takes it on a device, or XLA's own.",
        "- `python -m conformance costs --write`",
        "",
    ]
    TABLE.write_text("\n".join([*heading, *summary(costs)]) + "\n", encoding="utf-8")
    data = {
        "target": target,
        "versions": {"jax": jax.__version__, plugin: report.version(plugin)},
        "cases": {cost.case: _data(cost) for cost in costs},
    }
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _data(cost: CaseCost) -> dict[str, object]:
    return {
        "floor": cost.floor,
        **{
            side: {
                "launches": program.launches,
                "bytes": program.moved,
                "loops": [[loop.scope, loop.count, loop.is_exact] for loop in program.loops],
                "parts": [_part(launch, kernel) for launch, kernel in program.parts],
            }
            for side, program in cost.sides.items()
        },
    }


def _part(launch: Launch, kernel: Kernel) -> dict[str, object]:
    taken = {key: value for key, value in dataclasses.asdict(kernel).items() if value is not None}
    return {
        "name": launch.name,
        "kind": launch.kind,
        "launches": launch.cost.launches,
        "bytes": launch.cost.moved,
        "times": launch.times,
        **({"note": launch.note} if launch.note else {}),
        **taken,
    }


def _bytes(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"
