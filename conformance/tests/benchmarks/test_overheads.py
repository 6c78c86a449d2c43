"""Tests of how the costs besides a computation are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.benchmarks.families import overheads
from impl._lowerings import _traces


@pytest.mark.once
def test_a_first_call_makes_every_trace_again() -> None:
    traced: list[int] = []

    def make() -> Any:
        def counted(x: Any) -> Any:
            traced.append(1)
            return x + x

        return counted

    arrays = (np.ones((3, 41), np.float32),)
    side: Any = overheads._lowering(_traces.traced_once(make), arrays, overheads.OURS)
    numbers = []
    for _ in range(3):
        assert side() > 0
        numbers.append(len(traced))
        traced.clear()
    assert numbers[0] == numbers[1] == numbers[2] > 0
