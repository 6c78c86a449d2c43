"""Pictures of a family of benchmarks: the ratios of its cases, and its times by size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure

import cost_files
from conformance.benchmarks.measurements import Family, Measurement
from pictures.themes import Theme

#: The marks of the sides, after the first. They differ for readers who see no colours.
_MARKS = "osD^v"


def families() -> Mapping[str, Family]:
    """Returns the family of each picture, by the picture's name, ``scatter-cpu`` and so on.

    A family whose cases have sizes has a picture of its times, ``scatter-cpu-curve``.
    """
    return dict(_families())


def _families() -> Iterator[tuple[str, Family]]:
    for name, _, family in cost_files.families():
        if _compared(family):
            yield name, family
        if len(_sized(family)) > 1:
            yield f"{name}-curve", family


def description(name: str) -> str:
    """Returns what a picture shows, in a line."""
    shown = "the times by size" if name.endswith("-curve") else "the ratios of each case"
    return f"{families()[name].title}: {shown}. The table above has the numbers"


def draw(name: str, theme: Theme) -> Figure:
    """Returns a picture."""
    family = families()[name]
    return _curve(family, theme) if name.endswith("-curve") else _ratios(family, theme)


def _compared(family: Family) -> Sequence[Measurement]:
    """Returns the cases that are one of a kind and have the side that the family compares with."""
    return [each for each in family.measurements if each.n is None and family.base in each.sides]


def _sized(family: Family) -> Sequence[tuple[int, Measurement]]:
    """Returns the cases that are one of several sizes, with the size."""
    return [(each.n, each) for each in family.measurements if each.n is not None]


def _ratios(family: Family, theme: Theme) -> Figure:
    """Returns dots, a line for each case: the ratio of each side to the base."""
    cases = _compared(family)
    figure = Figure(figsize=(8, 1.2 + 0.22 * len(cases)), layout="constrained")
    axes = figure.add_subplot()
    sides = [side for side in _sides(cases) if side != family.base]
    for side, color, mark in zip(sides, _colors(theme)[1:], _MARKS[1:], strict=False):
        points = [(each, y) for y, each in enumerate(cases) if side in each.sides]
        x = [each.sides[side].median / each.sides[family.base].median for each, _ in points]
        axes.plot(x, [y for _, y in points], mark, color=color, label=side, markersize=5)
    axes.axvline(1, color=theme.ink, linewidth=1)
    axes.set_yticks(range(len(cases)), [", ".join(each.case.values()) for each in cases])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"time, as a multiple of {family.base}")
    axes.set_title(family.title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _curve(family: Family, theme: Theme) -> Figure:
    """Returns the time of each side over the size, with both axes logarithmic."""
    cases = _sized(family)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    sides = _sides([each for _, each in cases])
    for side, color, mark in zip(sides, _colors(theme), _MARKS, strict=False):
        points = [(n, each.sides[side]) for n, each in cases if side in each.sides]
        x = [n for n, _ in points]
        axes.plot(x, [times.median for _, times in points], f"{mark}-", color=color, label=side)
        lows, highs = ([getattr(times, q) for _, times in points] for q in ("low", "high"))
        axes.fill_between(x, lows, highs, color=color, alpha=0.2)
    copies = [(n, each.copy_ms) for n, each in cases if each.copy_ms is not None]
    x, y = [n for n, _ in copies], [ms for _, ms in copies]
    axes.plot(x, y, "--", color=theme.faint, label="a copy of the bytes")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size")
    axes.set_ylabel("milliseconds")
    axes.set_title(family.title)
    axes.legend()
    return figure


def _colors(theme: Theme) -> Sequence[str]:
    return (theme.faint, theme.ours, theme.warn, theme.peer, theme.ink)


def _sides(measurements: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(side for each in measurements for side in each.sides))
