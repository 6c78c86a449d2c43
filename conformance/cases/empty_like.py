"""Calls of empty_like."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._fresh import makers


def samples() -> Iterator[Sample]:
    """Two kinds of number, of the shape of an array of that dtype."""
    return makers(
        lambda ns, dtype: ns.empty_like(np.zeros((3, 5), dtype)),
        (3, 5),
        kinds=("floating", "integer"),
    )
