"""Finds the lines of source that an equation of a program comes from.

A person acts on the line of their own code. The line of the library that it calls comes second.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from impl import _jax

_OWN = Path(__file__).resolve().parents[1]
_INSTALLED = ("site-packages", "dist-packages")


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines that an equation comes from, each as ``file:line``.

    Attributes:
        user: The innermost line outside all libraries; None if there is none.
        package: The innermost line of a library other than JAX, with the function; None if there is
            none.
        called: The function of JAX or of this package that the user's line calls; None if there is
            none.
    """

    user: str | None = None
    package: str | None = None
    called: str | None = None

    @property
    def library(self) -> str | None:
        """The line of a library, with the function: of another library than JAX if there is one."""
        return self.package or self.called

    @property
    def shown(self) -> tuple[str, str | None]:
        """The line that a person acts on, and the library's line that it calls."""
        return self.user or self.library or "unknown source", self.library if self.user else None

    @property
    def package_name(self) -> str | None:
        """The name of the library that ``package`` is a line of."""
        return None if self.package is None else Path(self.package).parts[0]


def lines(equation: Any, outside: Lines | None = None) -> Lines:
    """Returns the lines of an equation.

    ``outside`` is the lines of the equation that this one is inside of. They count if a library
    made all of the inner equation.
    """
    return lines_of(_jax.frames(equation), outside)


def caller() -> Lines:
    """Returns the lines of the code that runs now, in this thread."""
    return lines_of(running())


def running() -> Iterator[tuple[str, int, str]]:
    """Yields the file, line and function of each frame of this thread, innermost first."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001  # public, fast
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def lines_of(frames: Iterable[tuple[str, int, str]], outside: Lines | None = None) -> Lines:
    """Returns the lines of frames, each a file, a line and a function, the innermost first.

    ``outside`` is as for ``lines``.
    """
    package: str | None = None
    called: str | None = None
    for file, line, function in frames:
        kind = kind_of(file)
        if kind == "user":
            return Lines(f"{shown(file)}:{line}", package, called)
        text = f"{shown(file)}:{line} ({function})"
        if kind == "library":
            package = package or text
        elif kind == "ours" and function.isidentifier() and not function.startswith("_"):
            called = text
    outside = outside or Lines()
    return Lines(outside.user, package or outside.package, called or outside.called)


@functools.cache
def kind_of(file: str) -> Literal["user", "library", "ours", "none"]:
    """Returns whose code a file is: ``ours`` is JAX or this package, ``none`` no code for users."""
    path = Path(file)
    if any(part in _INSTALLED for part in path.parts):
        if "jaxlib" in path.parts:
            return "none"
        return (
            ("ours" if _has_functions_for_users(path) else "none")
            if "jax" in path.parts
            else "library"
        )
    if file.startswith("<frozen") or _is_below(path, sysconfig.get_path("stdlib")):
        return "none"
    if _is_below(path, str(_OWN)) and "tests" not in path.relative_to(_OWN).parts:
        return "ours"
    return "user"


def _has_functions_for_users(path: Path) -> bool:
    """Returns whether a file of JAX has functions such as ``jax.numpy.take_along_axis``."""
    inside = path.parts[len(path.parts) - path.parts[::-1].index("jax") :]
    return bool(set(inside) & {"numpy", "nn", "scipy", "image", "ops", "random.py", "sparse"})


def _is_below(path: Path, folder: str) -> bool:
    return path.is_absolute() and path.is_relative_to(folder)


@functools.cache
def shown(file: str) -> str:
    """Returns the path of a file in the shortest form that still tells which file it is."""
    path = Path(file)
    for part in _INSTALLED:
        if part in path.parts:
            return str(Path(*path.parts[path.parts.index(part) + 1 :]))
    if _is_below(path, str(_OWN.parent)):
        return str(path.relative_to(_OWN.parent))
    return str(path.relative_to(Path.cwd())) if _is_below(path, str(Path.cwd())) else file
