"""Checks of the arguments of functions about the mode and about programs."""

from __future__ import annotations

from collections.abc import Iterable


def check_callable(function: str, name: str, value: object) -> None:
    """Raises a TypeError that names a function and its argument, unless the value is callable."""
    if not callable(value):
        kind = type(value).__name__
        raise TypeError(f"{function}(): argument {name!r} must be callable, not {kind}")


def check_choice(function: str, name: str, value: object, allowed: Iterable[object]) -> None:
    """Raises a ValueError that names a function and its argument, unless the value is allowed."""
    choices = tuple(allowed)
    if value not in choices:
        raise ValueError(
            f"{function}(): argument {name!r} got {value!r}; allowed: "
            f"{', '.join(map(repr, choices))}"
        )
