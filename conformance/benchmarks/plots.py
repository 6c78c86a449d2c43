"""The plots of a report of the benchmarks, as SVG for a light and for a dark page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from conformance.benchmarks.measurements import Family, Measurement, Report
from conformance.benchmarks.tables import stem

#: A grey that is legible on white and on black.
_GREY = "#808080"
#: Colours and marks of the sides in turn. They differ for those who see no colours too.
_COLORS = ("#808080", "#1f9e89", "#d1495b", "#7b6fd0", "#c58b00")
_MARKS = "osD^v"
_STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    # The same report gives the same file.
    "svg.hashsalt": "samebits",
    "font.size": 9,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _GREY
    ),
}


def write(report: Report, folder: Path) -> list[Path]:
    """Writes the plots of each family to a folder, and returns the files."""
    paths = []
    style: Any = dict(_STYLE)
    with mpl.rc_context(style):
        for name, family in report.families.items():
            made = {"": _ratios(family), "-curve": _curve(family)}
            for ending, figure in made.items():
                if figure is not None:
                    path = folder / f"{stem(report, name)}{ending}.svg"
                    figure.savefig(path, transparent=True, metadata={"Date": None})
                    paths.append(path)
    return paths


def _ratios(family: Family) -> Figure | None:
    """Returns dots, a line for each case: the ratio of each side to the base."""
    chosen = [each for each in family.measurements if each.n is None and family.base in each.sides]
    if not chosen:
        return None
    figure = Figure(figsize=(8, 1.2 + 0.22 * len(chosen)), layout="constrained")
    axes = figure.add_subplot()
    sides = [side for side in _sides(chosen) if side != family.base]
    for side, color, mark in zip(sides, _COLORS[1:], _MARKS[1:], strict=False):
        points = [(each, y) for y, each in enumerate(chosen) if side in each.sides]
        x = [each.sides[side].median / each.sides[family.base].median for each, _ in points]
        axes.plot(x, [y for _, y in points], mark, color=color, label=side, markersize=5)
    axes.axvline(1, color=_GREY, linewidth=1)
    axes.set_yticks(range(len(chosen)), [", ".join(each.case.values()) for each in chosen])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"time, as a multiple of {family.base}")
    axes.set_title(family.title)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _curve(family: Family) -> Figure | None:
    """Returns the time of each side over the size, with both axes logarithmic."""
    chosen = [(each.n, each) for each in family.measurements if each.n is not None]
    if len(chosen) < 2:  # one point is no curve
        return None
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for side, color, mark in zip(
        _sides([each for _, each in chosen]), _COLORS, _MARKS, strict=False
    ):
        points = [(n, each.sides[side]) for n, each in chosen if side in each.sides]
        x = [n for n, _ in points]
        axes.plot(x, [times.median for _, times in points], f"{mark}-", color=color, label=side)
        lows, highs = ([getattr(times, q) for _, times in points] for q in ("low", "high"))
        axes.fill_between(x, lows, highs, color=color, alpha=0.2)
    copies = [(n, each.copy_ms) for n, each in chosen if each.copy_ms is not None]
    x, y = [n for n, _ in copies], [ms for _, ms in copies]
    axes.plot(x, y, "--", color=_GREY, label="a copy of the bytes")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size")
    axes.set_ylabel("milliseconds")
    axes.set_title(family.title)
    axes.legend(frameon=False)
    return figure


def _sides(measurements: list[Measurement]) -> list[str]:
    return list(dict.fromkeys(side for each in measurements for side in each.sides))
