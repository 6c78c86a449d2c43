"""The picture of what determinism costs on a CPU, a line for each op."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping

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
    made = {
        name: Line(
            tuple(ours for ours, _ in figures),
            tuple(plain for _, plain in figures if plain is not None),
        )
        for name, figures in lines.items()
    }
    return dict(sorted(made.items(), key=lambda entry: -entry[1].middle))


def description() -> str:
    """Returns what the picture shows, in a line."""
    unit = "the time that PyTorch's deterministic mode takes"
    texts = ", ".join(f"{name} {line.middle:.2g}" for name, line in measured().items())
    return f"Medians of the ordered path, as multiples of {unit}: {texts or 'no figure is kept'}"


def draw(theme: Theme) -> Figure:
    """Returns the picture."""
    lines = measured()
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
    axes.set_xlabel("time, as a multiple of PyTorch's deterministic mode")
    figure.legend(loc="outside upper center", ncols=2)
    return figure
