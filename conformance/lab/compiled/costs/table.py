"""Shows costs: a line for each case, each launch of a program, and the table that is kept."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from conformance.lab.compiled.costs.measured import CaseCost, Kernel, ProgramCost
from conformance.lab.compiled.hlo_costs import Cost, Launch, Loop
from conformance.reporting import report

_FOLDER = Path(__file__).parents[1]
#: The table that the site shows.
TABLE = _FOLDER / "costs.md"
#: The table of the samples of the suite.
SAMPLES = _FOLDER / "costs_of_samples.md"
#: The beginning of the names of these.
_SAMPLE = "sample-"
#: The same as data, with each launch of the program with the mode on.
DATA = _FOLDER / "costs.json"
_PLUGIN = "jax-cuda13-plugin"
_HEADINGS = (
    *("case", "launches", "bytes", "floors", "loops", "sort", "exceeds"),
    *("plain: launches", "bytes", "mode off: launches", "bytes"),
)
_PRODUCTS = (
    *("case", "flops for each byte loaded", "a library's", "instructions for 1,000 products"),
    *("registers", "exceeds"),
)
_BRANCHES = (
    *("case", "launches", "bytes", "floors", "on the other branch: launches", "bytes", "floors"),
)
_ABOUT_BRANCHES = (
    "## Programs that choose between branches",
    "",
    "- A program finds out itself whether its data needs the other branch. The bits are the same.",
    "- All other tables count the first branch. For `kthvalue` and `median`, most data takes it:",
    "  what is random or sorted, or has many equal elements. Data of which a sample misleads takes",
    "  the other one.",
    "",
)
_ABOUT_PRODUCTS = (
    "## The kernels of products",
    "",
    "- Counted in the code of the loop that multiplies: a product and its sum are two operations.",
    "- A library's: that of tiles of 128 by 256, or of the next smaller ones of which a GPU has",
    "  enough programs. It is an assumption, since a library's code is not compiled here.",
    "",
)
#: What the data has of each launch, in their order.
_PART = (
    *("name", "kind", "launches", "times", "bytes of one time", "programs", "warps", "registers"),
    *("spilled", "shared", "loops", "loaded", "loaded by a thread in each round"),
)


def line(cost: CaseCost) -> str:
    """Returns a case in one line."""
    parts = [f"{side} {_short(cost, program)}" for side, program in cost.sides.items()]
    parts += [f"{side} cannot be counted" for side in cost.errors]
    return f"{cost.case}: {'; '.join(parts)} ({cost.seconds:.1f} s)"


def _short(cost: CaseCost, program: ProgramCost) -> str:
    floors = program.moved / max(1, cost.floor)
    return f"{program.launches} launches, {_bytes(program.moved)}, {floors:.1f} floors"


def explanation(cost: CaseCost) -> Iterator[str]:
    """Yields each launch of each side of a case."""
    for side, program in cost.sides.items():
        yield f"{cost.case}, {side}: {_short(cost, program)} of {_bytes(cost.floor)}"
        for loop in program.loops:
            yield f"  loop {loop.name}: {_rounds(loop)} rounds; {loop.scope}"
        for each in program.conditionals:
            yield f"  conditional {each.name}, {each.scope}: counted {_branch(each.counted)}"
            yield from (f"    not counted: {_branch(other)}" for other in each.others)
        yield (
            "  launches          bytes  kind       programs x warps  regs  spill  shared  loops  "
            "       loads  instruction"
        )
        for launch, kernel in program.parts:
            yield f"  {_launch_line(launch, kernel)}"
    for side, error in cost.errors.items():
        yield f"{cost.case}, {side}: {error}"


def _launch_line(launch: Launch, kernel: Kernel) -> str:
    times = f"{launch.cost.launches}" + (f" x {launch.times}" if launch.times != 1 else "")
    size = "" if kernel.programs is None else f"{kernel.programs} x {kernel.warps}"
    numbers = (kernel.registers, kernel.spilled, kernel.shared, kernel.loops)
    loads = "" if kernel.loaded is None else f"{kernel.loaded * launch.times:,}"
    loads += f" + {kernel.repeated} in loops" if kernel.repeated else ""
    registers, spilled, shared, loops = ("" if each is None else str(each) for each in numbers)
    return (
        f"{times:>8} {launch.total.moved:>14,}  {launch.kind:<10} {size:>16}  {registers:>4}  "
        f"{spilled:>5}  {shared:>6}  {loops:>5}  {loads:>12}  {launch.name}"
        + (f" [{launch.note}]" if launch.note else "")
        + (f" {launch.scope}" if launch.scope else "")
    )


def _branch(cost: Cost) -> str:
    return f"a branch of {cost.launches} launches, {_bytes(cost.moved)}"


def _rounds(loop: Loop) -> str:
    if loop.count is None:
        return "?"
    return str(loop.count) if loop.is_exact else f"at most {loop.count}"


def data(cost: CaseCost, exceeds: Collection[str], library: float | None = None) -> dict[str, Any]:
    """Returns the costs of a case as data.

    Args:
        cost: The costs.
        exceeds: The terms of the budget that they exceed.
        library: The library's floating-point operations for each byte, of a product.
    """
    found: dict[str, Any] = {"floor": cost.floor if cost.sides else 0, "exceeds": list(exceeds)}
    for side, program in cost.sides.items():
        launches = [launch for launch, _ in program.parts]
        in_kernels = sum(
            kernel.loops or 0 for launch, kernel in program.parts if launch.kind == "Pallas"
        )
        sorts = dict.fromkeys(each.kind for each in launches if each.kind in {"CUB", "XLA's sort"})
        found[side] = {
            "launches": program.launches,
            "bytes": program.moved,
            "loops": [_rounds(loop) for loop in program.loops],
            "loops in kernels": in_kernels,
            "sorts": list(sorts),
        }
    work = cost.sides["on"].multiplication if "on" in cost.sides else None
    if library is not None and work is not None:
        found["products"] = {
            "flops for each byte": round(work.intensity, 1),
            "of a library": round(library, 1),
            "instructions for 1,000": round(1000 * work.instructions / work.products),
        }
    if "on" in cost.sides and cost.sides["on"].conditionals:
        found["other branches"] = _with_other_branches(cost.sides["on"])
    if "on" in cost.sides:
        found["parts"] = [_part(*each) for each in cost.sides["on"].parts]
    return found


def _with_other_branches(program: ProgramCost) -> dict[str, int]:
    """Returns the cost of a program whose conditionals take the dearest of their other branches."""
    launches, moved = program.launches, program.moved
    for each in program.conditionals:
        other = max(each.others, key=lambda cost: cost.launches, default=each.counted)
        launches += other.launches - each.counted.launches
        moved += other.moved - each.counted.moved
    return {"launches": launches, "bytes": moved}


def _part(launch: Launch, kernel: Kernel) -> list[Any]:
    name = f"{launch.name} {launch.note}".strip()
    taken = (kernel.programs, kernel.warps, kernel.registers, kernel.spilled, kernel.shared)
    counted = (name, launch.kind, launch.cost.launches, launch.times, launch.cost.moved)
    return [*counted, *taken, kernel.loops, kernel.loaded, kernel.repeated]


def rows(cases: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the table of cases in Markdown, from their data."""
    yield f"| {' | '.join(_HEADINGS)} |"
    yield "| --- |" + " ---: |" * (len(_HEADINGS) - 1)
    for name, each in cases.items():
        yield f"| {name} | {' | '.join(_cells(each))} |"


def products(cases: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the table of the kernels of products in Markdown, from the data of cases."""
    yield f"| {' | '.join(_PRODUCTS)} |"
    yield "| --- |" + " ---: |" * (len(_PRODUCTS) - 1)
    for name, each in cases.items():
        if "products" in each:
            # Registers are the eighth of what the data has of a launch.
            registers = max(part[7] or 0 for part in each["parts"] if part[1] == "Pallas")
            exceeds = "loads" if "loads" in each["exceeds"] else ""
            cells = [*each["products"].values(), registers, exceeds]
            yield f"| {name} | {' | '.join(map(str, cells))} |"


def branches(cases: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the table of programs with conditionals in Markdown, from the data of cases."""
    yield f"| {' | '.join(_BRANCHES)} |"
    yield "| --- |" + " ---: |" * (len(_BRANCHES) - 1)
    for name, each in cases.items():
        if "other branches" in each:
            sides = (each["on"], each["other branches"])
            cells = [cell for side in sides for cell in _of_branch(side, each["floor"])]
            yield f"| {name} | {' | '.join(cells)} |"


def _of_branch(side: Mapping[str, Any], floor: int) -> Iterator[str]:
    yield str(side["launches"])
    yield _bytes(side["bytes"])
    yield f"{side['bytes'] / max(1, floor):.1f}"


def _cells(case: Mapping[str, Any]) -> list[str]:
    on = case.get("on")
    if on is None:
        return ["?"] * (len(_HEADINGS) - 1)
    inside = on["loops in kernels"]
    loops = [*on["loops"], *([f"{inside} in kernels"] if inside else [])]
    cells = [
        str(on["launches"]),
        _bytes(on["bytes"]),
        f"{on['bytes'] / max(1, case['floor']):.1f}",
        " + ".join(loops),
        ", ".join(on["sorts"]),
        ", ".join(case["exceeds"]),
    ]
    for side in ("plain", "off"):
        other = case.get(side)
        cells.append(str(other["launches"]) if other else "")
        cells.append(_compared(on["bytes"], other["bytes"]) if other else "")
    return cells


def _compared(on: int, other: int) -> str:
    return f"{_bytes(other)} ({on / max(1, other):.1f})"


def write(made: Mapping[str, Mapping[str, Any]], names: Sequence[str], target: str) -> None:
    """Writes the table and the data: what is new, and what is there of the other cases.

    Args:
        made: The data of the cases that were counted, by their names.
        names: The names of all cases, in their order.
        target: The name of the GPU.

    Raises:
        ValueError: The data that is there is of another compiler, and does not cover all cases.
    """
    about = {"target": target, "jax": jax.__version__, _PLUGIN: report.version(_PLUGIN)}
    before = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    same = {key: before.get(key) for key in about} == about
    if before and not same and set(made) < set(names):
        raise ValueError(f"{DATA.name} is not of {about}: write all cases, without -k")
    found = {**(before.get("cases", {}) if same else {}), **made}
    cases = {name: found[name] for name in names if name in found}
    releases = f"jax {about['jax']}, {_PLUGIN} {about[_PLUGIN]}"
    about_all = [
        f"- Compiled for one {target.upper()} by XLA of {releases}; nothing ran.",
        "- A floor: each operand read once and each result written once.",
        "- In brackets: the bytes with the mode on, in those of plain JAX or of the mode off.",
        "- Loops: the rounds of each of XLA's, and the loops in the code of kernels of Pallas.",
        "- Sort: CUB's, where XLA takes it on a device, or XLA's own.",
        "- Exceeds: the terms of the budget that are exceeded, with a known reason.",
        "- `python -m conformance costs --write`",
        "",
    ]
    for path, title, is_sample in (
        (TABLE, "What ordered programs cost by their compiled code", False),
        (SAMPLES, "The same of the first sample of each operation", True),
    ):
        shown = {name: cases[name] for name in cases if name.startswith(_SAMPLE) == is_sample}
        lines = [f"# {title}", "", *about_all, *rows(shown)]
        if any("other branches" in case for case in shown.values()):
            lines += ["", *_ABOUT_BRANCHES, *branches(shown)]
        if any("products" in case for case in shown.values()):
            lines += ["", *_ABOUT_PRODUCTS, *products(shown)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    DATA.write_text(_text({**about, "part": list(_PART), "cases": cases}), encoding="utf-8")


def _text(document: Mapping[str, Any]) -> str:
    """Returns a document as JSON, with a line for each launch."""
    about = {key: value for key, value in document.items() if key != "cases"}
    lines = []
    for name, case in document["cases"].items():
        parts = ",\n".join(f"   {json.dumps(part)}" for part in case.get("parts", []))
        fields = ",\n".join(
            f"   {json.dumps(key)}: {json.dumps(value)}"
            for key, value in case.items()
            if key != "parts"
        )
        lines.append(f'  {json.dumps(name)}: {{\n{fields},\n   "parts": [\n{parts}\n   ]\n  }}')
    head = json.dumps(about, indent=1).removesuffix("\n}")
    return f'{head},\n "cases": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def _bytes(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"
