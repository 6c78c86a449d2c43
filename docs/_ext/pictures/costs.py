"""Pictures of what determinism costs, a line for each op: time on a CPU, bytes on a GPU."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

import cost_files
from pictures.themes import Theme

_PEER = "PyTorch, deterministic"


@dataclasses.dataclass(frozen=True)
class Line:
    """The figures of one op.

    Attributes:
        ours: A figure of the ordered path for each case.
        plain: A figure of plain JAX for each case that has one.
    """

    ours: tuple[float, ...]
    plain: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median of the ordered path."""
        return statistics.median(self.ours)


def measured() -> Mapping[str, Line]:
    """Returns the times of all reports as multiples of PyTorch's, by op, the dearest first."""
    lines: dict[str, list[tuple[float, float | None]]] = {}
    for each in (each for path in cost_files.reports() for each in cost_files.timed(path)):
        ours = each.times(_PEER)
        if ours is not None:
            family = each.family
            other = each.times(_PEER, family.base) if family.base != family.ours else None
            lines.setdefault(each.name, []).append((ours, other))
    return _sorted(lines)


def counted(path: Path = cost_files.COUNTED) -> Mapping[str, Line]:
    """Returns the bytes that programs move, as multiples of the least, by op, the dearest first."""
    lines: dict[str, list[tuple[float, float | None]]] = {}
    for each in cost_files.of_benchmarks(path):
        lines.setdefault(each.label, []).append((each.floors, each.plain_floors))
    return _sorted(lines)


def description_of_measured() -> str:
    """Returns what the picture shows, in a line."""
    return _description(measured(), "the time that PyTorch's deterministic mode takes")


def description_of_counted() -> str:
    """Returns what the picture shows, in a line."""
    return _description(counted(), "the bytes of operands and results")


def draw_measured(theme: Theme) -> Figure:
    """Returns the picture of times."""
    return _draw(measured(), "time, as a multiple of PyTorch's deterministic mode", theme)


def draw_counted(theme: Theme) -> Figure:
    """Returns the picture of bytes."""
    return _draw(counted(), "bytes moved, as a multiple of operands and results", theme)


def _sorted(lines: Mapping[str, Sequence[tuple[float, float | None]]]) -> Mapping[str, Line]:
    made = {
        name: Line(
            tuple(ours for ours, _ in figures),
            tuple(plain for _, plain in figures if plain is not None),
        )
        for name, figures in lines.items()
    }
    return dict(sorted(made.items(), key=lambda entry: -entry[1].middle))


def _description(lines: Mapping[str, Line], unit: str) -> str:
    texts = ", ".join(f"{name} {line.middle:.2g}" for name, line in lines.items())
    return f"Medians of the ordered path, as multiples of {unit}: {texts or 'no figure is kept'}"


def _draw(lines: Mapping[str, Line], label: str, theme: Theme) -> Figure:
    figure = Figure(figsize=(7, 0.9 + 0.24 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for y, line in enumerate(lines.values()):
        axes.axhline(y, color=theme.faint, linewidth=0.4)
        axes.plot(line.plain, [y] * len(line.plain), "D", color=theme.peer, markersize=4, alpha=0.6)
        axes.plot(line.ours, [y] * len(line.ours), "o", color=theme.ours, markersize=3, alpha=0.6)
        axes.plot([line.middle], [y], "o", color=theme.ours, markersize=7)
    axes.plot(
        [], [], "o", color=theme.ours, markersize=7, label="ordered: each case, and the median"
    )
    axes.plot([], [], "D", color=theme.peer, markersize=4, label="plain JAX: each case")
    axes.axvline(1, color=theme.ink, linewidth=1)
    axes.set_yticks(range(len(lines)), list(lines))
    axes.set_ylim(max(1, len(lines)) - 0.5, -0.5)  # Without any figure it is empty.
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(label)
    figure.legend(loc="outside upper center", ncols=2)
    return figure
