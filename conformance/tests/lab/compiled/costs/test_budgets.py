"""Budgets, on programs that were compiled before."""

import dataclasses

import pytest

from conformance.lab.compiled import launches
from conformance.lab.compiled.costs import budgets
from conformance.lab.compiled.costs.budgets import Excess
from conformance.lab.compiled.costs.case import Budget, CostCase
from conformance.lab.compiled.costs.counts import CaseCost
from conformance.tests.lab.compiled.optimised_programs import COPIED, LOOP, STRAIGHT

CASE = CostCase("f-8", "f", "forward", lambda x: x, ())


def failures(on, budget, known=(), **others):
    case = dataclasses.replace(CASE, budget=budget)
    sides = {side: launches.account_of(text) for side, text in {"on": on, **others}.items()}
    return list(budgets.failures(case, CaseCost("f-8", "h200", sides, {}, 0.0), known))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(launches=2), "11 launches, and the budget is 2"),
        (Budget(floors=2), "5.27 bytes, in floors, and the budget is 2"),
    ],
)
def test_a_loop_that_is_put_back_exceeds_the_budget(budget, words):
    assert failures(STRAIGHT, budget) == []
    (failure,) = failures(LOOP, budget)
    lines = failure.splitlines()
    assert lines[0] == f"f-8 for h200, the mode on: {words}"
    greatest = "5 x less" if budget.launches else "5 x next, fusion, made by XLA"
    assert greatest in lines[2]
    assert "python -m conformance costs --explain f-8" in failure


def test_a_needless_copy_exceeds_the_budget():
    budget = Budget(launches=1, floors=1)
    assert failures(STRAIGHT, budget) == []
    count, moved = failures(COPIED, budget)
    assert "2 launches, and the budget is 1" in count
    assert "again, copy" in count
    assert "2.00 bytes, in floors" in moved


def test_the_mode_off_may_move_no_more_than_plain_jax():
    assert failures(LOOP, Budget(), off=STRAIGHT, plain=STRAIGHT) == []
    (failure,) = failures(STRAIGHT, Budget(), off=COPIED, plain=STRAIGHT)
    assert failure.startswith("f-8 for h200, the mode off: 2.00 of the bytes of plain JAX")


def test_an_entry_of_a_cost_that_is_within_its_budget_is_an_error():
    known = [Excess("f-8", "launches", "a reason", 2), Excess("g-8", "launches", "another's", 2)]
    assert failures(COPIED, Budget(launches=1), known) == []
    (failure,) = failures(STRAIGHT, Budget(launches=1), known)
    assert "remove 'launches' of f-8 from known_excesses.toml" in failure
    assert budgets.unknown_names(known, ["f-8"]) == [
        "known_excesses.toml: there is no case g-8; remove the entry"
    ]


def test_a_known_excess_may_not_grow():
    budget = Budget(launches=1, floors=1)
    known = [Excess("f-8", "launches", "a reason", 2), Excess("f-8", "floors", "a reason", 5.2)]
    count, moved = failures(LOOP, budget, known)
    assert "11 launches, and the budget is 1, the bound of the known excess 2" in count
    assert "5.27 bytes, in floors, and the budget is 1, the bound of the known excess 5.2" in moved
    known = [Excess("f-8", "launches", "a reason", 11), Excess("f-8", "floors", "a reason", 5.3)]
    assert failures(LOOP, budget, known) == []


def test_a_program_that_does_not_compile_fails():
    broken = CaseCost("f-8", "h200", {}, {"plain": "ValueError: no"}, 0.0)
    (failure,) = budgets.failures(CASE, broken, ())
    assert failure == "f-8 for h200, plain JAX: it cannot be counted: ValueError: no"


def test_the_file_of_excesses_is_read():
    cases = {"f-8": {"launches": 17, "floors": 3.3}}
    assert budgets.parse({"excess": [{"reason": "r", "cases": cases}]}) == (
        Excess("f-8", "launches", "r", 17),
        Excess("f-8", "floors", "r", 3.3),
    )
    with pytest.raises(ValueError, match="needs reason and cases"):
        budgets.parse({"excess": [{"cases": cases}]})
    with pytest.raises(ValueError, match="unknown"):
        budgets.parse({"excess": [{"reason": "r", "cases": {"f-8": {"speed": 1}}}]})
    with pytest.raises(ValueError, match="a bound is a number"):
        budgets.parse({"excess": [{"reason": "r", "cases": {"f-8": {"launches": -1}}}]})
