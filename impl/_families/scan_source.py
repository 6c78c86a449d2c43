"""What the tiles of a scan are made of: elements of arrays, or what a program makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from impl._families.scan_combines import Parts


@dataclasses.dataclass(frozen=True)
class View:
    """The elements of an array that a program loads.

    Attributes:
        array: The position of the array.
        lag: The elements are those so many steps before, in the direction of the scan.
        beyond: The element before the first, and after the last.
    """

    array: int
    lag: int = 0
    beyond: float = 0


@dataclasses.dataclass(frozen=True)
class Source:
    """What is scanned and stored, if programs make it of the arrays: then no other array holds it.

    Attributes:
        views: What is loaded for the scan.
        parts: Makes of it the parts that are scanned.
        types: For each part, the position of an array of its dtype.
        views_at_end: What is loaded for the result.
        result: Makes the result of this, after the part that is returned; None returns the part.
    """

    views: tuple[View, ...]
    parts: Callable[..., Parts]
    types: tuple[int, ...]
    views_at_end: tuple[View, ...] = ()
    result: Callable[..., jax.Array] | None = None

    @staticmethod
    def of_all(count: int, *, lagged: int = 0) -> Source:
        """Returns the source whose parts are arrays, of which the first may be lagged by a step."""
        views = tuple(View(k, int(k < lagged)) for k in range(count))
        return Source(views, lambda *parts: parts, tuple(range(count)))
