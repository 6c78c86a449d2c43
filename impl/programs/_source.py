"""Finds the lines of source that an equation of a program comes from.

A person acts on the line of their own code. The line of the library that it calls comes second.
"""

from __future__ import annotations

import dataclasses
import functools
import sysconfig
from pathlib import Path
from typing import Any

from impl._core import jax_internals

_OWN = Path(__file__).resolve().parents[1]
_INSTALLED = ("site-packages", "dist-packages")


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines that an equation comes from, each as ``file:line``.

    Attributes:
        user: The innermost line outside all libraries; None if there is none.
        library: The innermost line of a library other than JAX's own parts that make equations,
            with the function; None if the user's line makes the equation itself.
    """

    user: str | None
    library: str | None


def lines(equation: Any, outside: str | None = None) -> Lines:
    """Returns the lines of an equation.

    Args:
        equation: The equation.
        outside: The user's line of the equation that this one is inside of. It counts if a
            library made all of the inner equation.
    """
    library = None
    for file, line, function in jax_internals.frames(equation):
        kind = _kind(file)
        if kind == "user":
            return Lines(f"{_shown(file)}:{line}", library)
        if kind == "library" and library is None:
            library = f"{_shown(file)}:{line} ({function})"
    return Lines(outside, library)


@functools.cache
def _kind(file: str) -> str:
    """Returns ``user``, ``library``, or ``none`` for a file that explains nothing."""
    path = Path(file)
    if file.startswith("<frozen") or _is_below(path, sysconfig.get_path("stdlib")):
        return (
            "library"
            if any(part in _INSTALLED for part in path.parts) and not _is_jax(path)
            else "none"
        )
    if any(part in _INSTALLED for part in path.parts):
        return "none" if _is_jax(path) else "library"
    if _is_below(path, str(_OWN)) and "tests" not in path.relative_to(_OWN).parts:
        return "library"
    return "user"


def _is_jax(path: Path) -> bool:
    """Returns whether a file is one of the parts of JAX that are not functions for users."""
    parts = path.parts
    if "jaxlib" in parts:
        return True
    if "jax" not in parts:
        return False
    inside = parts[len(parts) - parts[::-1].index("jax") :]
    # The functions of jax.numpy, jax.nn, jax.scipy, jax.random and jax.image explain an equation.
    return not set(inside) & {"numpy", "nn", "scipy", "image", "ops", "random.py", "sparse"}


def _is_below(path: Path, folder: str) -> bool:
    return path.is_absolute() and path.is_relative_to(folder)


@functools.cache
def _shown(file: str) -> str:
    """Returns a path as short as it can be without doubt."""
    path = Path(file)
    for part in _INSTALLED:
        if part in path.parts:
            return str(Path(*path.parts[path.parts.index(part) + 1 :]))
    if _is_below(path, str(_OWN.parent)):
        return str(path.relative_to(_OWN.parent))
    return str(path.relative_to(Path.cwd())) if _is_below(path, str(Path.cwd())) else file
