"""Calls of nanmedian."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases import _medians


def samples() -> Iterator[Sample]:
    """Of a column with NaNs the median of its numbers."""
    return _medians.samples("nanmedian", lambda x: int((~np.isnan(x)).sum() + 1) // 2)
