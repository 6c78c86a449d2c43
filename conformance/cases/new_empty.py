"""Calls of new_empty."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._fresh import makers


def samples() -> Iterator[Sample]:
    """Two kinds of number, that of an array of another shape."""
    return makers(
        lambda ns, dtype: ns.new_empty(np.zeros((2,), dtype), (3, 5)),
        (3, 5),
        kinds=("floating", "integer"),
    )
