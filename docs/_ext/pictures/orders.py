"""Pictures of orders: which term is added to which, from the left to the right."""

from __future__ import annotations

import dataclasses
import functools

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pictures.order_trees import Example, Fold, examples, tree
from pictures.themes import Theme

#: The least number of terms, or of equal runs, that are drawn as one box.
_LONG = 8
#: The width of a box, and of a term; the height of a level.
_BOX, _TERM, _LEVEL = 3.0, 1.0, 1.0


@dataclasses.dataclass(frozen=True)
class Run:
    """Many terms that are added from left to right, as one box.

    Attributes:
        first: The name of the first term.
        last: The name of the last term.
        parts: The contents of the box, in words.
        count: How many terms each of its equal runs has.
    """

    first: str
    last: str
    parts: str
    count: int


#: A part of a picture: a term by its name, a box, or members that are added from left to right.
Part = str | Run | tuple["Part", ...]


def names() -> tuple[str, ...]:
    """Returns the orders that have a picture."""
    return tuple(examples())


@functools.cache
def description(order: str) -> str:
    """Returns what the picture shows, in a line."""
    return f"The additions of an example, with brackets: {_words(_parts(order))}"


def draw(order: str, theme: Theme) -> Figure:
    """Returns the tree of the additions of an order, the first additions at the top."""
    part = _parts(order)
    figure = Figure(figsize=(1, 1))
    axes = figure.add_axes((0, 0, 1, 1))
    width, depth = _width(part), _depth(part)
    x = _drawn(axes, part, 0.0, 0.0, depth * _LEVEL, theme)
    axes.plot([x, x], [depth * _LEVEL, (depth + 0.5) * _LEVEL], color=theme.ours, linewidth=1.5)
    axes.text(x, (depth + 0.75) * _LEVEL, "sum", ha="center", va="center", fontweight="bold")
    axes.set_xlim(-0.3, width + 0.3)
    head = 1.4  # the height of a box of two lines
    axes.set_ylim((depth + 1.1) * _LEVEL, -head)
    axes.set_axis_off()
    figure.set_size_inches(max(2.5, 0.48 * (width + 0.6)), 0.33 * (depth + 1.1 + head))
    return figure


@functools.cache
def _parts(order: str) -> Part:
    example = examples()[order]
    return shortened(tree(example), example)


def _words(part: Part) -> str:
    if isinstance(part, tuple):
        return " + ".join(f"({_words(p)})" if isinstance(p, tuple) else _words(p) for p in part)
    return f"[{part.first} to {part.last}: {part.parts}]" if isinstance(part, Run) else part


def shortened(member: int | Fold, example: Example) -> Part:
    """Returns the part of the picture that shows a member of an example.

    The first members of a chain may become one box.
    """
    if isinstance(member, int):
        return example.names[member]
    leading = 0
    while leading < len(member.members) and isinstance(member.members[leading], int):
        leading += 1
    parts: list[Part] = [shortened(each, example) for each in member.members]
    if leading >= _LONG:
        # The last leading term may have the lowest number: the initial value, which is added last.
        run = Run(str(parts[0]), str(parts[leading - 1]), f"{leading:,} terms", leading)
        parts = [run, *parts[leading:]]
    equal = _equal_runs(parts)
    if len(equal) >= _LONG:
        first, last = equal[0], equal[-1]
        words = f"{len(equal)} runs of {first.count}"
        run = Run(first.first, last.last, words, len(equal) * first.count)
        parts = [run, *parts[len(equal) :]]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _equal_runs(parts: list[Part]) -> list[Run]:
    """Returns the runs at the beginning that have as many terms as the first part."""
    runs: list[Run] = []
    for part in parts:
        if not isinstance(part, Run) or (runs and part.count != runs[0].count):
            break
        runs.append(part)
    return runs


def _width(part: Part) -> float:
    if isinstance(part, tuple):
        return sum(map(_width, part))
    return _BOX if isinstance(part, Run) else max(_TERM, 0.24 * len(part) + 0.3)


def _depth(part: Part) -> int:
    """Returns the number of additions below each other."""
    if not isinstance(part, tuple):
        return 0
    depth = _depth(part[0])
    for member in part[1:]:
        depth = max(depth, _depth(member)) + 1
    return depth


def _drawn(axes: Axes, part: Part, left: float, top: float, bottom: float, theme: Theme) -> float:
    """Draws a part whose result is at ``bottom``, and returns the x of the result."""
    if not isinstance(part, tuple):
        return _leaf(axes, part, left, top, bottom, theme)
    below = [_depth(part[: number + 1]) for number in range(1, len(part))]
    levels = [below[0], *below]
    x = 0.0
    for number, member in enumerate(part):
        level = levels[number] * _LEVEL
        own = _drawn(axes, member, left, top, level - _LEVEL if number else 0.0, theme)
        left += _width(member)
        if number == 0:
            x, y = own, _depth(member) * _LEVEL
            continue
        meet = (x + own) / 2
        for start, height in ((x, y), (own, level - _LEVEL)):
            axes.plot([start, start, meet], [height, level - 0.5, level], color=theme.faint)
        axes.plot([meet], [level], "o", color=theme.ours, markersize=4)
        x, y = meet, level
    axes.plot([x, x], [y, bottom], color=theme.faint)
    return x


def _leaf(
    axes: Axes, part: str | Run, left: float, top: float, bottom: float, theme: Theme
) -> float:
    x = left + _width(part) / 2
    axes.plot([x, x], [top, bottom], color=theme.faint)
    box = {"boxstyle": "round,pad=0.25", "edgecolor": theme.peer, "facecolor": "none"}
    if isinstance(part, Run):
        text = f"{part.first} to {part.last}\n{part.parts} →"
        axes.text(x, top - 0.1, text, ha="center", va="bottom", fontsize=8, bbox=box)
    else:
        axes.text(x, top - 0.1, part, ha="center", va="bottom", fontsize=9)
    return x
