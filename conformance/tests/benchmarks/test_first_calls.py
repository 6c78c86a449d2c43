"""Tests of what first calls take, against budgets."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from conformance.benchmarks import eager_calls, first_calls
from conformance.benchmarks.eager_calls import Call
from conformance.benchmarks.first_calls import Cost
from impl._core.jax_internals import releases

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        not releases.IS_OLDEST, reason="budgets are of the operations of the oldest JAX"
    ),
]

#: A budget more than this many times the cost of its call would not show that it becomes slow.
SLACK = 1.5


@pytest.fixture(scope="module")
def costs() -> dict[str, Cost]:
    """The cost of each call that can be lowered, by its name."""
    costs = {call.op: first_calls.cost(call) for call in eager_calls.calls()}
    return {op: cost for op, cost in costs.items() if cost is not None}


def test_no_first_call_takes_more_than_its_budget(costs: dict[str, Cost]) -> None:
    budgets = first_calls.budgets()
    assert budgets.keys() == costs.keys()
    exceeded = {op: c.operations for op, c in costs.items() if c.operations > budgets[op]}
    assert not exceeded, "these calls got slower to lower"
    wide = {op: c.operations for op, c in costs.items() if budgets[op] > SLACK * c.operations + 4}
    assert not wide, "these calls got faster; lower their budgets in first_calls.toml"


def test_no_first_call_takes_more_calls_of_python_than_its_budget(costs: dict[str, Cost]) -> None:
    budgets = first_calls.python_budgets()
    assert budgets.keys() == costs.keys()
    taken = {op: cost.python_calls / 1000 for op, cost in costs.items()}
    exceeded = {op: cost for op, cost in taken.items() if cost > budgets[op]}
    assert not exceeded, "these calls got slower to trace"
    wide = {op: cost for op, cost in taken.items() if budgets[op] > SLACK * cost + 1}
    assert not wide, "these calls got faster; lower their budgets in first_calls.toml"


def test_the_cost_counts_operations_functions_and_calls_of_python() -> None:
    ones = (jnp.ones((3, 5)),)
    operators = first_calls.cost(Call("operators", lambda x: x + x > x, None, ones))
    lax_ = first_calls.cost(Call("lax", lambda x: lax.gt(lax.add(x, x), x), None, ones))
    once = first_calls.cost(Call("function", jax.jit(jnp.negative), None, ones))
    assert operators is not None
    assert lax_ is not None
    assert once is not None
    assert operators.operations == lax_.operations == 2
    assert operators.python_calls > 1.3 * lax_.python_calls
    assert once.operations == 1 + first_calls.FUNCTION + 1
    assert first_calls.cost(Call("mask", lambda x: x[np.asarray(x) > 0], None, ones)) is None
