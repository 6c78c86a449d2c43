"""Tests of what eager calls take, against budgets."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import impl
from conformance.benchmarks import eager_calls, repeated_calls
from conformance.benchmarks.eager_calls import Call
from impl._core.jax_internals import releases

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not releases.IS_OLDEST, reason="budgets are of the calls of the oldest JAX"),
]

#: A budget more than this many times the cost of its call would not show that it becomes slow.
SLACK = 1.1


def test_no_eager_call_takes_more_calls_of_python_than_its_budget() -> None:
    budgets = repeated_calls.budgets()
    calls = {call.op: call for call in eager_calls.calls()}
    assert budgets.keys() <= calls.keys()
    taken = {op: repeated_calls.python_calls(call) for op, call in calls.items()}
    compiled = {op: number for op, number in taken.items() if op in budgets}
    exceeded = {op: number for op, number in compiled.items() if number > budgets[op]}
    assert not exceeded, "these calls got slower"
    wide = {op: number for op, number in compiled.items() if budgets[op] > SLACK * number + 1}
    assert not wide, "these calls got faster; lower their budgets in repeated_calls.toml"
    without = {op: number for op, number in taken.items() if op not in budgets}
    assert all(number > repeated_calls.AS_WRITTEN for number in without.values()), without


def test_a_check_of_values_is_counted() -> None:
    arrays = jnp.ones((8, 8)), jnp.zeros((8, 8), int)
    reads = repeated_calls.python_calls(
        Call("gather", lambda x, i: impl.gather(x, 0, i), None, arrays)
    )
    sums = repeated_calls.python_calls(Call("cumsum", lambda x, _: impl.cumsum(x, 0), None, arrays))
    assert 0 < sums < reads
