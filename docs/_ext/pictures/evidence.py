"""A picture of the evidence: how many rows of each device have which level as their strongest."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

import row_evidence
import spec
from conformance.reporting.report import STRENGTHS
from pictures.themes import Theme


def description() -> str:
    """Returns what the picture shows, in a line."""
    return ". ".join(
        f"{device}: " + ", ".join(f"{name} {number}" for name, number in levels.items() if number)
        for device, levels in counts().items()
    )


def draw(theme: Theme) -> Figure:
    """Returns a bar for each device."""
    bars = counts()
    figure = Figure(figsize=(7, 0.9 + 0.5 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    left = dict.fromkeys(bars, 0)
    for level, (color, alpha) in _fills(theme).items():
        numbers = [levels[level] for levels in bars.values()]
        if not any(numbers):
            continue
        drawn = axes.barh(list(bars), numbers, left=list(left.values()), color=color, alpha=alpha)
        drawn.set_label(level)
        text = theme.paper if alpha == 1 else theme.ink
        axes.bar_label(drawn, [str(n or "") for n in numbers], label_type="center", color=text)
        left = {device: left[device] + bars[device][level] for device in bars}
    axes.invert_yaxis()
    axes.set_xlabel("active rows, by their strongest evidence")
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def _fills(theme: Theme) -> Mapping[str, tuple[str, float]]:
    """Returns the colour and the opacity of each level.

    Evidence of a run on the device has a colour of its own. Weaker levels are fainter.
    """
    weaker = [level for level in reversed(STRENGTHS) if level != "hardware"]
    opacities = [1 - 0.35 * number for number in range(len(weaker))]
    return {
        "hardware": (theme.ours, 1.0),
        **{level: (theme.peer, a) for level, a in zip(weaker, opacities, strict=True)},
        row_evidence.NO_BITS: (theme.faint, 0.8),
        row_evidence.NONE: (theme.faint, 0.4),
        row_evidence.FAILED: (theme.warn, 1.0),
    }


def counts() -> Mapping[str, Mapping[str, int]]:
    """Returns the number of active rows for each device and strongest evidence."""
    reports = row_evidence.our_reports(row_evidence.REPORTS)
    return row_evidence.counts(spec.load().select(active=True), row_evidence.by_row(reports))
