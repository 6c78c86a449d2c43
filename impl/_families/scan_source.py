"""The source of a scan: how a kernel makes the scanned parts of the arrays that it loads.

The tangents of a running product, for example, are a scan of factors and terms, and a term is the
product of a fold and a tangent. A kernel instance computes it from what it loads, so no array of
terms is written to memory:

    views    values; the fold one step before (``lag=1``), or 1 before the first step; tangents
    parts    (values, fold * tangents)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from impl._families.scan_combines import Parts


@dataclasses.dataclass(frozen=True)
class View:
    """The elements of an array that a kernel instance loads.

    Attributes:
        array: The position of the array.
        lag: The number of steps by which the loaded elements come before the scanned ones, in the
            direction of the scan.
        beyond: The value before the first element, and after the last.
    """

    array: int
    lag: int = 0
    beyond: float = 0


@dataclasses.dataclass(frozen=True)
class Source:
    """The parts of a scan, and its result, as functions of elements of arrays.

    Attributes:
        views: The elements that the scan loads.
        parts: Maps these elements to the parts that are scanned.
        types: For each part, the position of an array of its dtype.
        views_at_end: More elements, which are loaded for the result.
        result: Maps a part of the folds and these elements to the result; None returns the part.
    """

    views: tuple[View, ...]
    parts: Callable[..., Parts]
    types: tuple[int, ...]
    views_at_end: tuple[View, ...] = ()
    result: Callable[..., jax.Array] | None = None

    @staticmethod
    def of_all(count: int, *, lagged: int = 0) -> Source:
        """Returns the source whose parts are arrays; the first ``lagged`` ones lag by a step."""
        views = tuple(View(k, int(k < lagged)) for k in range(count))
        return Source(views, lambda *parts: parts, tuple(range(count)))
