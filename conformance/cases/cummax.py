"""Samples of cummax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conformance.cases import _running_extremes
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"cummax": tuple(_running_extremes.samples("cummax", np.maximum))}
