"""Samples of cummin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conformance.cases import _running_extremes
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"cummin": tuple(_running_extremes.samples("cummin", np.minimum))}
