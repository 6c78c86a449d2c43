"""Tests of how the costs besides a computation are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import impl
from conformance.benchmarks.families import overheads
from impl._lowerings import scan_blocks


@pytest.mark.once
def test_a_first_call_makes_every_trace_again(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[int] = []
    scan = scan_blocks.scan

    def counted(*args: Any, **options: Any) -> Any:
        traced.append(1)
        return scan(*args, **options)

    monkeypatch.setattr(scan_blocks, "scan", counted)
    arrays = (np.ones((3, 41), np.float32),)
    side: Any = overheads._lowering(lambda x: impl.cumsum(x, 0), arrays, overheads.OURS)
    numbers = []
    for _ in range(3):
        assert side() > 0
        numbers.append(len(traced))
        traced.clear()
    assert numbers[0] == numbers[1] == numbers[2] > 0
