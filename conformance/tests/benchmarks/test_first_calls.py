"""Tests of what first calls take, against budgets."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from conformance.benchmarks import eager_calls, first_calls
from conformance.benchmarks.eager_calls import Call
from impl._core.jax_internals import releases

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        not releases.IS_OLDEST, reason="budgets are of the operations of the oldest JAX"
    ),
]

#: A budget more than this many times the cost of its call would not show that it becomes slow.
SLACK = 1.5


def test_no_first_call_takes_more_than_its_budget() -> None:
    budgets = first_calls.budgets()
    costs = {call.op: first_calls.cost(call) for call in eager_calls.calls()}
    known = {op: cost for op, cost in costs.items() if cost is not None}
    assert budgets.keys() == known.keys()
    exceeded = {op: cost for op, cost in known.items() if cost > budgets[op]}
    assert not exceeded, "these calls got slower to lower"
    wide = {op: cost for op, cost in known.items() if budgets[op] > SLACK * cost + 4}
    assert not wide, "these calls got faster; lower their budgets in first_calls.toml"


def test_no_first_call_takes_more_calls_of_python_than_its_budget() -> None:
    budgets = first_calls.python_budgets()
    assert budgets.keys() == first_calls.budgets().keys()
    calls = [call for call in eager_calls.calls() if call.op in budgets]
    taken = {call.op: first_calls.python_calls(call) / 1000 for call in calls}
    exceeded = {op: cost for op, cost in taken.items() if cost > budgets[op]}
    assert not exceeded, "these calls got slower to trace"
    wide = {op: cost for op, cost in taken.items() if budgets[op] > SLACK * cost + 1}
    assert not wide, "these calls got faster; lower their budgets in first_calls.toml"


def test_an_operator_takes_more_calls_of_python_than_an_operation_of_lax() -> None:
    ones = (jnp.ones((3, 5)),)
    by_operators = first_calls.python_calls(Call("operators", lambda x: x + x > x, None, ones))
    by_lax = Call("lax", lambda x: lax.gt(lax.add(x, x), x), None, ones)
    assert by_operators > 1.3 * first_calls.python_calls(by_lax)


def test_the_cost_counts_operations_and_functions() -> None:
    ones = (jnp.ones(3),)
    assert first_calls.cost(Call("add", lambda x: x + x, None, ones)) == 1
    once = first_calls.cost(Call("function", jax.jit(jnp.negative), None, ones))
    assert once == 1 + first_calls.FUNCTION + 1
    assert first_calls.cost(Call("mask", lambda x: x[np.asarray(x) > 0], None, ones)) is None
