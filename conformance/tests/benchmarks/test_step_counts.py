"""Tests of the size of the programs of training steps, against budgets."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import pytest

from conformance import programs
from conformance.benchmarks import step_counts
from impl._core.jax_internals import releases

MISSING = [name for name in programs.REQUIREMENTS if importlib.util.find_spec(name) is None]
#: A budget more than this many times the count of its program would not show that it grows.
SLACK = 1.05


@pytest.mark.once
@pytest.mark.skipif(not releases.IS_OLDEST, reason="budgets are of the oldest JAX")
@pytest.mark.skipif(bool(MISSING), reason=f"`nox -s tests-3.11` has {MISSING}")
@pytest.mark.parametrize("engine", step_counts.budgets())
@pytest.mark.parametrize("name", step_counts.PROGRAMS)
def test_no_step_has_more_operations_than_its_budget(name: str, engine: str) -> None:
    budget, counts = step_counts.budgets()[engine][name], step_counts.counts(name, engine)
    assert budget.keys() == counts.keys()
    exceeded = {key: count for key, count in counts.items() if count > budget[key]}
    assert not exceeded, "this step got slower to compile"
    wide = {key: count for key, count in counts.items() if budget[key] > SLACK * count}
    assert not wide, "this step got smaller; lower its budget in step_counts.toml"


def test_every_program_has_a_budget() -> None:
    for budgets in step_counts.budgets().values():
        assert budgets.keys() == step_counts.PROGRAMS.keys()


def test_a_function_counts_once_and_for_each_of_its_calls() -> None:
    inner = jax.jit(lambda x: jnp.sin(x) * x)
    outer = jax.jit(lambda x: inner(x) + 1)
    text = jax.jit(lambda x: outer(x) * inner(x)).lower(jnp.ones(3)).as_text()
    # inner has two operations. outer has a sum, whose constant is broadcast.
    assert step_counts.counts_of(text) == {"operations": 2 + 3 + 1, "copied": 2 * 2 + 3 + 1}
