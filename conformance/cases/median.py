"""Calls of median."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases import _medians


def samples() -> Iterator[Sample]:
    """Of a column with NaNs the median is NaN."""
    return _medians.samples("median", lambda x: len(x) if np.isnan(x).any() else (len(x) + 1) // 2)
