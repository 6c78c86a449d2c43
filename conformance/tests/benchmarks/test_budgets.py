"""Calls and training steps keep to their budgets, and the counts count.

Tests: conformance.benchmarks.budgets, conformance.benchmarks.families.overheads.
"""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from conformance import programs
from conformance.benchmarks import budgets
from conformance.benchmarks.families import overheads
from conformance.benchmarks.families.overheads import Call
from impl._jax import releases

MISSING = [name for name in programs.REQUIREMENTS if importlib.util.find_spec(name) is None]
#: The ops whose function of plain JAX has another result, of about the same work.
NEAREST = (
    *("empty_like", "kthvalue", "median", "nanmedian", "scatter_reduce", "topk"),
    *("nn.functional.avg", "nn.functional.conv_transpose", "nn.functional.cross_entropy"),
    *("nn.functional.interpolate", "nn.functional.max_pool"),
)
of_oldest = pytest.mark.skipif(not releases.IS_OLDEST, reason="budgets are of the oldest JAX")
pytestmark = pytest.mark.once


@of_oldest
def test_no_call_takes_more_than_its_budget() -> None:
    taken = {c.op: counts for c in overheads.calls() if (counts := budgets.of_call(c))}
    faults = [x for op, counts in taken.items() for x in budgets.faults("calls", op, counts)]
    assert faults == []
    assert taken.keys() == budgets.budgets("calls").keys()


@of_oldest
@pytest.mark.skipif(bool(MISSING), reason=f"`nox -s tests-3.11` has {MISSING}")
@pytest.mark.parametrize("step", budgets.budgets("steps"))
def test_no_step_has_more_operations_than_its_budget(step: str) -> None:
    assert list(budgets.faults("steps", step, budgets.of_step(*step.split(", ")))) == []


def test_every_step_has_a_budget_with_and_without_the_library() -> None:
    steps = {f"{name}, {engine}" for name in budgets.STEPS for engine in ("native", "float64")}
    assert steps == set(budgets.budgets("steps"))


def test_plain_jax_has_the_same_result_or_that_of_the_nearest_function() -> None:
    for call in overheads.calls():
        if call.plain is not None:
            results = (function(*call.arrays) for function in (call.ours, call.plain))
            ours, plain = (jax.tree.leaves(result)[0] for result in results)
            if not call.op.startswith(NEAREST):
                np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-6, err_msg=call.op)


def test_a_count_above_its_budget_and_a_budget_too_wide_are_faults() -> None:
    budget = budgets.budgets("calls")["cumsum"]
    assert list(budgets.faults("calls", "cumsum", budget)) == []
    (above,) = budgets.faults("calls", "cumsum", {**budget, "first": budget["first"] + 1})
    assert above.startswith("cumsum takes ")
    (wide,) = budgets.faults("calls", "cumsum", {**budget, "repeated": 1})
    assert "lower its budget" in wide
    (missing,) = budgets.faults("calls", "cumsum", {"first": 1})
    assert missing.startswith("cumsum has the counts {'first': 1} and the budgets {")


def test_operations_functions_and_calls_of_python_are_counted() -> None:
    ones = (jnp.ones((3, 5)),)
    operators = budgets.of_call(Call("operators", lambda x: x + x > x, None, ones))
    lax_ = budgets.of_call(Call("lax", lambda x: lax.gt(lax.add(x, x), x), None, ones))
    once = budgets.of_call(Call("function", jax.jit(jnp.negative), None, ones))
    assert operators["operations"] == lax_["operations"] == 2
    assert operators["first"] > 1.3 * lax_["first"]
    assert once["operations"] == 1 + budgets.FUNCTION
    mask = budgets.of_call(Call("mask", lambda x: x[np.asarray(x) > 0], None, ones))
    assert "operations" not in mask


def test_a_check_of_values_is_counted() -> None:
    arrays = jnp.ones((8, 8)), jnp.zeros((8, 8), int)
    reads = budgets.of_call(Call("gather", lambda x, i: impl.gather(x, 0, i), None, arrays))
    sums = budgets.of_call(Call("cumsum", lambda x, _: impl.cumsum(x, 0), None, arrays))
    assert 0 < sums["repeated"] < reads["repeated"]


def test_a_function_counts_once_and_for_each_of_its_calls() -> None:
    inner = jax.jit(lambda x: jnp.sin(x) * x)
    outer = jax.jit(lambda x: inner(x) + 1)
    text = jax.jit(lambda x: outer(x) * inner(x)).lower(jnp.ones(3)).as_text()
    # inner has two operations. outer has a sum, whose constant is broadcast.
    assert budgets.counts_of(text) == {"operations": 2 + 3 + 1, "copied": 2 * 2 + 3 + 1}
