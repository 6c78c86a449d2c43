"""Calls of cummin."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases import _extremes


def samples() -> Iterator[Sample]:
    """Down columns, for each dtype, and there and back."""
    return _extremes.samples("cummin", np.minimum)
