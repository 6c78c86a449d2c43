"""The colours of pictures on a light and on a dark page, and the writing of both files."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


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


THEMES = (
    Theme("light", "#ffffff", "#333333", "#b8b8b8", ours="#0b7a6b", peer="#6b4fc4", warn="#c23b50"),
    Theme("dark", "#131416", "#dddddd", "#666666", ours="#3cc9b3", peer="#a893f5", warn="#ff7d8c"),
)


def write(name: str, draw: Callable[[Theme], Figure], folder: Path) -> Mapping[str, Path]:
    """Writes a picture for each theme, and returns the files by the name of the theme.

    It is drawn in the first theme, whose colours the other ones replace.

    Args:
        name: The start of the names of the files.
        draw: Makes the figure for a theme.
        folder: Where the files go; it is made if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn, text = THEMES[0], io.StringIO()
    with mpl.rc_context(_style(drawn)):
        # No date is written, so that the same data give the same file.
        draw(drawn).savefig(text, format="svg", transparent=True, metadata={"Date": None})
    paths = {theme.name: folder / f"{name}-{theme.name}.svg" for theme in THEMES}
    for theme in THEMES:
        colours = dict(zip(dataclasses.astuple(drawn), dataclasses.astuple(theme), strict=True))
        replaced = re.sub("#[0-9a-f]{6}", lambda m: colours.get(m[0], m[0]), text.getvalue())  # noqa: B023  # It is called now.
        paths[theme.name].write_text(replaced, encoding="utf-8")
    return paths


def _style(theme: Theme) -> Any:
    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "samebits",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        **dict.fromkeys(ink, theme.ink),
    }
