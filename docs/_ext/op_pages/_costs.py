"""What an op costs, from the files that the benchmarks and the count of launches wrote."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import cost_files
from op_pages import _text


def _last(op: str) -> str:
    return op.rpartition(".")[2]


@functools.cache
def _measured() -> tuple[Mapping[str, Any], ...]:
    """Returns the reports of benchmarks."""
    return tuple(json.loads(file.read_text(encoding="utf-8")) for file in cost_files.reports())


@functools.cache
def _counted() -> Mapping[str, Any]:
    """Returns the costs of compiled programs; without the file there are none."""
    return cost_files.read_counts() if cost_files.COUNTED.exists() else {"cases": {}}


def measurements(op: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], dict[str, Any]]]:
    """Yields each measurement of an op, with its family and the report."""
    for report in _measured():
        for family in report["families"].values():
            for measurement in family["measurements"]:
                name = measurement["case"].get("op") or family["title"]
                if re.match(r"\w+", name).group() == _last(op):  # type: ignore[union-attr]
                    yield report, family, measurement


def _case(measurement: Mapping[str, Any]) -> str:
    """Returns the size of a case in words."""
    return ", ".join(
        str(value) if key in ("size", "input", "direction", "op", "work") else f"{value} {key}"
        for key, value in measurement["case"].items()
        if key != "beside"
    )


def _ratio(family: Mapping[str, Any], measurement: Mapping[str, Any]) -> float | None:
    sides, base = measurement["sides"], family["base"]
    if base == family["ours"] or base not in sides or family["ours"] not in sides:
        return None
    return float(sides[family["ours"]]["median"] / sides[base]["median"])


def counted(op: str) -> dict[str, Mapping[str, Any]]:
    """Returns the counted cases of an op by name; the samples only if there are no others."""
    cases: Mapping[str, Mapping[str, Any]] = _counted()["cases"]
    own = {n: c for n, c in cases.items() if n.split("-")[0] == _last(op) and "on" in c}
    samples = {n: c for n, c in cases.items() if n.split("-")[:2] == ["sample", op] and "on" in c}
    return own or samples


def card(op: str) -> Iterator[str]:
    """Yields lines: the time on a CPU beside the fast path, and the launches on a GPU."""
    timed = [(f, m, _ratio(f, m)) for _, f, m in measurements(op)]
    ratios = sorted(ratio for _, _, ratio in timed if ratio is not None)
    if ratios:
        base = next(f["base"] for f, _, ratio in timed if ratio is not None)
        span = f"{ratios[0]:.1f}" if len(ratios) == 1 else f"{ratios[0]:.1f} to {ratios[-1]:.1f}"
        yield f"**on a CPU**, measured: {span} times the time of {base}"
    elif timed:
        times = (f"{m['sides'][f['ours']]['median']:.2g} ms ({_case(m)})" for f, m, _ in timed[:2])
        yield f"**on a CPU**, measured: {'; '.join(times)}"
    else:
        yield "**on a CPU**: no benchmark of it is kept"
    cases = counted(op)
    if not cases:
        yield "**on a GPU**: no program of it was counted"
    for name, case in list(cases.items())[-1:]:
        on, plain = case["on"], case.get("plain")
        beside = f", where plain JAX has {plain['launches']}" if plain else ""
        floors = on["bytes"] / max(1, case["floor"])
        yield (
            f"**on a GPU**, counted in compiled code: {on['launches']} launches{beside}, and"
            f" {floors:.1f} times the bytes of its arrays (`{name}`)"
        )


def section(op: str) -> Iterator[str]:
    """Yields the tables of all figures."""
    rows, reports = [], {}
    for report, family, measurement in measurements(op):
        reports[report["made"][:10]] = report["environment"]
        sides = {side: f"{values['median']:.3g}" for side, values in measurement["sides"].items()}
        ratio = _ratio(family, measurement)
        times = "; ".join(f"{side} {value}" for side, value in sides.items())
        rows.append([_case(measurement), times, f"{ratio:.1f}" if ratio else "nothing to compare"])
    for made, environment in reports.items():
        versions = f"jax {environment['jax']}, {environment['device']}"
        yield f"Milliseconds on a CPU, medians, measured on {made} with {versions}.\n"
    yield _text.list_table(
        "Times on a CPU, in milliseconds", ["Case", "Times", "Ordered, in times of the first"], rows
    )
    cases = counted(op)
    found = _counted()
    if cases:
        yield (
            f"Programs compiled for one {found['target'].upper()} by jax {found['jax']}, and"
            " counted. Nothing ran. Times the arrays: the bytes that the launches move, in those"
            " of the operands and results.\n"
        )
        yield _text.list_table(
            "Launches and bytes on a GPU",
            ["Case", "Launches, mode on", "Times the arrays", "Launches, mode off", "Plain JAX"],
            [_row(name, case) for name, case in cases.items()],
        )
    if not rows and not cases:
        yield "No figure is kept about it.\n"


def _row(name: str, case: Mapping[str, Any]) -> list[str]:
    floors = case["on"]["bytes"] / max(1, case["floor"])
    others = [str(case[side]["launches"]) if side in case else "" for side in ("off", "plain")]
    return [f"`{name}`", str(case["on"]["launches"]), f"{floors:.1f}", *others]
