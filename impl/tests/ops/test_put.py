"""put: facts, bad arguments, and indices that are out of range."""

import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import V, at, ones
from impl.tests.ops._indices import (
    IN_RANGE,
    INDEX,
    SIZE,
    WRAPPED,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")


def test_facts():
    with impl.testing.questions() as asked:
        impl.put(np.ones(3), np.arange(2), np.ones(2), unique_indices=True)
    ((question),) = asked
    facts = {"unique_indices": True, "accumulate": False}
    assert {name: question.facts[name] for name in facts} == facts


CALLS: list[Call] = [
    ("put", (V, at(3), ones(1)), {}, IndexError, "for an input of 3 elements"),
    ("put", (V, at(-4), ones(1)), {}, IndexError, "allowed are -3 to 2"),
    ("put", (V[:0], at(0), ones(1)), {}, IndexError, "none is allowed"),
    ("put", (V, at(0, 1), ones(1)), {}, IndexError, "got 1 and 2"),
    ("put", (V, at(0), ones(1, dtype=np.int32)), {}, RuntimeError, "and source (int32)"),
    ("put", (V, at(0.0), ones(1)), {}, RuntimeError, "but got: float64"),
    ("put", (V, at(0), 1.0), {}, TypeError, "'source' must be"),
    ("put", (V, at(0), ones(1), None), {}, TypeError, "'accumulate' must be bool"),
]
UNLIKE_TORCH: list[Call] = [
    ("put", (V, at(0), ones(1)), {"unique_indices": None}, TypeError, "unique_indices"),
]
TORCH_FUNCTIONS = {"put": lambda x, *arguments: x.put(*arguments)}


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH
    torch_functions = TORCH_FUNCTIONS


@pytest.mark.usefixtures("path")
def test_writes_out_of_range_are_dropped():
    source = np.arange(1, len(INDEX) + 1, dtype=np.float32)
    x = np.full(SIZE, 100, np.float32)
    # The path decides which of several writes stays, so all of them write one value.
    results = run_together(
        {
            "add": (lambda x, i, s: impl.put(x, i, s, True), x, INDEX, source),
            "write": (impl.put, x, INDEX, np.full_like(source, 7)),
            "no elements": (impl.put, V[:0], at(0, -1), ones(2)),
        }
    )
    want = x.copy()
    np.add.at(want, WRAPPED[IN_RANGE], source[IN_RANGE])
    assert_same_bits(results["add"], want)
    want = x.copy()
    want[WRAPPED[IN_RANGE]] = 7
    assert_same_bits(results["write"], want)
    assert results["no elements"].shape == (0,)
