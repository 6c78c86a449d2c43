"""Pictures that are made from data while the site is built, each for a light and for a dark page.

``write`` writes the two files of a picture, and returns the alternative text, which says what it
shows. ``sums``, ``costs-cpu`` and ``evidence`` are pictures, and so is each family of benchmarks:
``bench-scatter-cpu`` has the ratios of the family ``scatter`` of the report ``cpu.json``, and
``bench-scatter-cpu-curve`` its times by size::

    >>> write("evidence")
    'cpu: hardware 118, tested without comparing bits 24. cuda: compiled 101, ...'
    >>> sorted(file.name for file in FOLDER.glob("evidence-*"))
    ['evidence-dark.svg', 'evidence-light.svg']
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import costs
import impl
import row_evidence
from answers import grouped
from conformance.benchmarks.measurements import Family, Measurement
from conformance.reporting.report import STRENGTHS

#: Where the files are written, in the folder of the sources.
FOLDER = Path(__file__).parents[1] / "_pictures"
#: A picture, and a line of text that describes it.
Picture: TypeAlias = tuple[Figure, str]


@dataclasses.dataclass(frozen=True)
class Theme:
    """The colours of a picture. The marks differ in form too, for those who see no colours.

    Attributes:
        name: The end of the class ``only-light`` or ``only-dark``, which furo shows or hides.
        paper: The background.
        ink: Texts and axes.
        faint: Lines that guide the eye.
        ours: The side of this project.
        peer: The side that it is compared with.
        warn: A result that may vary.
    """

    name: str
    paper: str
    ink: str
    faint: str
    ours: str
    peer: str
    warn: str


LIGHT = Theme("light", "#ffffff", "#333333", "#b8b8b8", "#0b7a6b", "#6b4fc4", "#c23b50")
DARK = Theme("dark", "#131416", "#dddddd", "#666666", "#3cc9b3", "#a893f5", "#ff7d8c")
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "samebits",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), LIGHT.ink
    ),
}


def pictures() -> Mapping[str, Callable[[], Picture]]:
    """Returns the functions that draw in the colours of ``LIGHT``, by the name of the picture."""
    return {"sums": _sums, "costs-cpu": _costs, "evidence": _evidence, **_of_benchmarks()}


@functools.cache
def write(name: str, folder: Path = FOLDER) -> str:
    """Writes a picture once for all pages, for each theme, and returns its description."""
    if name not in pictures():
        raise ValueError(f"no picture {name!r}; there are {sorted(pictures())}")
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure, description = pictures()[name]()
        # No date is written, so that the same data give the same file.
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    dark = dict(zip(dataclasses.astuple(LIGHT), dataclasses.astuple(DARK), strict=True))
    replaced = re.sub("#[0-9a-f]{6}", lambda match: dark.get(match[0], match[0]), drawn)
    for theme, svg in ((LIGHT, drawn), (DARK, replaced)):
        (folder / f"{name}-{theme.name}.svg").write_text(svg, encoding="utf-8")
    return description


def _sums() -> Picture:
    """Draws a sum in many orders as a histogram, and the exact sum, which has one value, as a line.

    The plain sums are added from left to right. ``jnp.sum`` with the guarantee ``portable`` gives
    the exact sums.
    """
    terms, orders = 4096, 1000
    numbers = np.random.default_rng(0)
    row = numbers.standard_normal(terms).astype(np.float32)
    shuffled = numbers.permuted(np.tile(row, (orders, 1)), axis=1)
    with impl.deterministic(True, guarantee="portable"):
        exact = set(np.asarray(jax.jit(lambda rows: jnp.sum(rows, axis=1))(shuffled)).tolist())
    plain = np.add.accumulate(shuffled, axis=1, dtype=np.float32)[:, -1].astype(float)
    values = len(set(plain.tolist()))
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.add_subplot()
    counts, _, _ = axes.hist(plain, bins=41, color=LIGHT.warn, alpha=0.75)
    top = float(np.max(counts))
    for value in exact:
        axes.axvline(value, color=LIGHT.ours, linewidth=3)
    axes.set_ylim(0, 1.35 * top)
    axes.annotate(
        f"exact sums: {len(exact)} value" + "s" * (len(exact) != 1),
        (max(exact), 1.2 * top),
        (8, 0),
        textcoords="offset points",
        color=LIGHT.ours,
        va="center",
    )
    one_after_another = f"added one after another:\n{values:,} values"
    axes.text(0.02, 0.95, one_after_another, transform=axes.transAxes, color=LIGHT.warn, va="top")
    axes.ticklabel_format(useOffset=False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"sum of the same {terms:,} float32 numbers")
    axes.set_ylabel(f"of {orders:,} orders")
    return figure, (
        f"The sum of {terms:,} float32 numbers in {orders:,} random orders: {values:,} "
        f"different results if they are added one after another, {len(exact)} if the sum is exact"
    )


def _costs() -> Picture:
    """Draws times as multiples of PyTorch's, a line for each op, the dearest first."""
    measured = grouped((each.name, each) for each in costs.timed() if each.times(costs.PEER))
    ordered = {
        name: [time for each in own if (time := each.times(costs.PEER))]
        for name, own in measured.items()
    }
    medians = {name: statistics.median(own) for name, own in ordered.items()}
    names = sorted(measured, key=lambda name: -medians[name])
    figure = Figure(figsize=(7, 0.9 + 0.24 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for y, name in enumerate(names):
        others = (each for each in measured[name] if each.family.base != each.family.ours)
        plain = [t for each in others if (t := each.times(costs.PEER, each.family.base))]
        ours = ordered[name]
        axes.axhline(y, color=LIGHT.faint, linewidth=0.4)
        axes.plot(plain, [y] * len(plain), "D", color=LIGHT.peer, markersize=4, alpha=0.6)
        axes.plot(ours, [y] * len(ours), "o", color=LIGHT.ours, markersize=3, alpha=0.6)
        axes.plot([medians[name]], [y], "o", color=LIGHT.ours, markersize=7)
    label = "ordered: each case, and the median"
    axes.plot([], [], "o", color=LIGHT.ours, markersize=7, label=label)
    axes.plot([], [], "D", color=LIGHT.peer, markersize=4, label="plain JAX: each case")
    axes.axvline(1, color=LIGHT.ink, linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(1, len(names)) - 0.5, -0.5)  # Without any figure it is empty.
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("time, as a multiple of PyTorch's deterministic mode")
    figure.legend(loc="outside upper center", ncols=2)
    unit = "the time that PyTorch's deterministic mode takes"
    texts = ", ".join(f"{name} {medians[name]:.2g}" for name in names)
    shown = texts or "no figure is kept"
    return figure, f"Medians of the ordered path, as multiples of {unit}: {shown}"


def _evidence() -> Picture:
    """Draws a bar for each device: the rows by their strongest evidence.

    Evidence of a run on the device has a colour of its own. Weaker levels are fainter.
    """
    counts = row_evidence.counts(row_evidence.by_row(row_evidence.our_reports()))
    weaker = [level for level in reversed(STRENGTHS) if level != "hardware"]
    fills: dict[str, tuple[str, float]] = {
        "hardware": (LIGHT.ours, 1.0),
        **{level: (LIGHT.peer, 1 - 0.35 * number) for number, level in enumerate(weaker)},
        row_evidence.NO_BITS: (LIGHT.faint, 0.8),
        row_evidence.NONE: (LIGHT.faint, 0.4),
        row_evidence.FAILED: (LIGHT.warn, 1.0),
    }
    figure = Figure(figsize=(7, 0.9 + 0.5 * len(counts)), layout="constrained")
    axes = figure.add_subplot()
    ends = np.zeros(len(counts), int)
    for level, (color, alpha) in fills.items():
        numbers = [levels.get(level, 0) for levels in counts.values()]
        if not any(numbers):
            continue
        drawn = axes.barh(list(counts), numbers, left=ends, color=color, alpha=alpha, label=level)
        text = LIGHT.paper if alpha == 1 else LIGHT.ink
        axes.bar_label(drawn, [str(n or "") for n in numbers], label_type="center", color=text)
        ends += numbers
    axes.invert_yaxis()
    axes.set_xlabel("active rows, by their strongest evidence")
    figure.legend(loc="outside upper center", ncols=4)
    return figure, ". ".join(
        f"{device}: " + ", ".join(f"{name} {levels[name]}" for name in fills if name in levels)
        for device, levels in counts.items()
    )


#: The marks of the sides, and their colours. They differ for readers who see no colours.
_MARKS = "osD^v"
_COLORS = LIGHT.faint, LIGHT.ours, LIGHT.warn, LIGHT.peer, LIGHT.ink


def _of_benchmarks() -> Mapping[str, Callable[[], Picture]]:
    """Returns the pictures of the families of benchmarks.

    A family whose cases have sizes has a picture of its times.
    """
    found: dict[str, Callable[[], Picture]] = {}
    for name, (_, family) in costs.families().items():
        compared = [m for m in family.measurements if m.n is None and family.base in m.sides]
        sized = {m.n: m for m in family.measurements if m.n is not None}
        if compared:
            found[f"bench-{name}"] = functools.partial(_ratios, family, compared)
        if len(sized) > 1:
            found[f"bench-{name}-curve"] = functools.partial(_curve, family, sized)
    return found


def _sides(measurements: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(side for each in measurements for side in each.sides))


def _ratios(family: Family, cases: Sequence[Measurement]) -> Picture:
    """Draws dots, a line for each case: the ratio of each side to the base."""
    figure = Figure(figsize=(8, 1.2 + 0.22 * len(cases)), layout="constrained")
    axes = figure.add_subplot()
    sides = [side for side in _sides(cases) if side != family.base]
    for side, color, mark in zip(sides, _COLORS[1:], _MARKS[1:], strict=False):
        points = [(each, y) for y, each in enumerate(cases) if side in each.sides]
        x = [each.sides[side].median / each.sides[family.base].median for each, _ in points]
        axes.plot(x, [y for _, y in points], mark, color=color, label=side, markersize=5)
    axes.axvline(1, color=LIGHT.ink, linewidth=1)
    axes.set_yticks(range(len(cases)), [", ".join(each.case.values()) for each in cases])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"time, as a multiple of {family.base}")
    axes.set_title(family.title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    shown = "the ratios of each case. The table above has the numbers"
    return figure, f"{family.title}: {shown}"


def _curve(family: Family, cases: Mapping[int, Measurement]) -> Picture:
    """Draws the time of each side over the size, with both axes logarithmic."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for side, color, mark in zip(_sides([*cases.values()]), _COLORS, _MARKS, strict=False):
        times = {n: each.sides[side] for n, each in cases.items() if side in each.sides}
        medians, lows, highs = (
            [getattr(each, name) for each in times.values()] for name in ("median", "low", "high")
        )
        axes.plot(list(times), medians, f"{mark}-", color=color, label=side)
        axes.fill_between(list(times), lows, highs, color=color, alpha=0.2)
    copies = {n: each.copy_ms for n, each in cases.items() if each.copy_ms is not None}
    label = "a copy of the bytes"
    axes.plot(list(copies), [*copies.values()], "--", color=LIGHT.faint, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size")
    axes.set_ylabel("milliseconds")
    axes.set_title(family.title)
    axes.legend()
    return figure, f"{family.title}: the times by size. The table above has the numbers"
