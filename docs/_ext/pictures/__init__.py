"""Pictures that are made from data while the site is built: ``picture``.

``{picture} sums`` shows the picture ``sums``. The picture ``bench-scatter-cpu`` shows the family
``scatter`` of the benchmark report ``cpu.json``.
Each picture is made for a light and for a dark page, and its alternative text says what it shows.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from pictures import benchmarks, costs, evidence, sums
from pictures.themes import Theme, write

#: Where the files are written, in the folder of the sources.
FOLDER = "_pictures"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        draw: Makes the figure for a theme.
        description: Returns a line of text that describes the picture.
    """

    draw: Callable[[Theme], Figure]
    description: Callable[[], str]


def pictures() -> dict[str, Picture]:
    """Returns all pictures by name."""
    return {
        "sums": Picture(sums.draw, sums.description),
        "costs-cpu": Picture(costs.draw, costs.description),
        "evidence": Picture(evidence.draw, evidence.description),
        **{of_benchmark(name): _benchmark(name) for name in benchmarks.families()},
    }


def of_benchmark(name: str) -> str:
    """Returns the name of the picture of a family of benchmarks. A family may have no picture."""
    return f"bench-{name}"


def images(name: str, env: BuildEnvironment) -> list[nodes.image]:
    """Writes a picture, and returns its images for the page that is read.

    furo shows the image of the page's theme.
    """
    files, description = _written(name, Path(env.srcdir) / FOLDER)
    page = Path(env.doc2path(env.docname)).parent
    return [
        nodes.image(uri=os.path.relpath(path, page), alt=description, classes=[f"only-{theme}"])
        for theme, path in files.items()
    ]


@functools.cache
def _written(name: str, folder: Path) -> tuple[Mapping[str, Path], str]:
    """Writes a picture once for all pages, and returns its files and its description."""
    picture = pictures()[name]
    return write(name, picture.draw, folder), picture.description()


def _benchmark(name: str) -> Picture:
    return Picture(lambda theme: benchmarks.draw(name, theme), lambda: benchmarks.description(name))


class PictureDirective(SphinxDirective):
    """The picture that the argument names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the images."""
        name = self.arguments[0]
        if name not in pictures():
            raise self.error(f"no picture {name!r}; there are {sorted(pictures())}")
        return [*images(name, self.env)]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.add_directive("picture", PictureDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
