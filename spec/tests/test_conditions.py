"""Conditions on the facts of a call, and the row that decides it."""

import dataclasses
from typing import Any

import pytest

import spec
from spec.conditions import meets, specificity, yields_to


@pytest.mark.parametrize(
    ("test", "passing", "failing"),
    [
        (True, [True], [False]),
        ("prod", ["prod"], ["sum"]),
        (("sum", "mean"), ["sum", "mean"], ["prod"]),
        ({"not": ("sum",)}, ["mean"], ["sum"]),
        ({"min": 2}, [2, 3], [1]),
        ({"max": 2}, [0, 2], [3]),
        ({"min": 2, "max": 3, "not": (3,)}, [2], [1, 3, 4]),
    ],
)
def test_meets(test, passing, failing):
    assert all(meets(test, value) for value in passing)
    assert not any(meets(test, value) for value in failing)


def test_holds_asks_for_every_test_and_ignores_other_facts():
    when: dict[str, Any] = {"accumulate": True, "input_ndim": {"min": 2}}
    assert spec.holds(when, {"accumulate": True, "input_ndim": 2, "quantized": False})
    assert not spec.holds(when, {"accumulate": True, "input_ndim": 1})
    assert spec.holds({}, {})


def test_a_fact_that_was_not_stated_is_an_error():
    with pytest.raises(spec.SpecError, match="accumulate"):
        spec.holds({"accumulate": True}, {})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"acumulate": True}, "unknown fact 'acumulate'"),
        ({"accumulate": 1}, "allowed: bool"),
        ({"input_ndim": True}, "allowed: int"),
        ({"mode": "nearest_exact"}, "nearest-exact"),
        ({"cublas_workspace_config": None}, "allowed: string"),
    ],
)
def test_check_facts_refuses(facts, message):
    with pytest.raises(spec.SpecError, match=message):
        spec.check_facts(facts, spec.load().facts)


def test_check_facts_takes_every_type():
    facts: dict[str, Any] = {
        "accumulate": False,
        "input_ndim": 0,
        "mode": "area",
        "cublas_workspace_config": "",
    }
    spec.check_facts(facts, spec.load().facts)


def make_row(id, device="any", when=None, **changes):
    row = spec.load().rows[0]
    behaviour: dict[str, Any] = dict.fromkeys(row.behaviour, "deterministic")
    made = dataclasses.replace(
        row,
        id=id,
        op="op",
        direction="forward",
        device=device,
        when=when or {},
        behaviour=behaviour,
        state="active",
    )
    return dataclasses.replace(made, **changes)


def decide(rows, device="cuda", direction="forward", facts=None, profile="complete"):
    row = spec.deciding_row(rows, "op", direction, device, facts or {}, profile)
    return row and row.id


def test_more_facts_go_before_a_named_device():
    rows = [
        make_row("wide"),
        make_row("cuda", "cuda"),
        make_row("narrow", when={"accumulate": True}),
    ]
    assert decide(rows, facts={"accumulate": True}) == "narrow"
    assert decide(rows, facts={"accumulate": False}) == "cuda"
    assert decide(rows, "cpu", facts={"accumulate": False}) == "wide"
    assert [specificity(row) for row in rows] == [(0, False), (0, True), (1, False)]


def test_a_row_yields_to_the_rows_that_decide_instead():
    rows = [
        make_row("wide"),
        make_row("cuda", "cuda"),
        make_row("narrow", when={"accumulate": True}),
        make_row("other", when={"accumulate": False}),
        make_row("backward", direction="backward"),
        make_row("out of scope", "cuda", state="out_of_scope"),
        make_row("options", "cuda", kind="backend"),
    ]
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    yields = {row.id: [r.id for r in yields_to(row, loaded)] for row in rows}
    assert yields.pop("wide") == ["cuda", "narrow", "other"]
    assert yields.pop("cuda") == ["narrow", "other"]
    assert not any(yields.values())


def test_of_two_equal_rows_the_later_one_yields():
    rows = [make_row("first"), make_row("second")]
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    assert [yields_to(row, loaded) for row in rows] == [(), (rows[0],)]


def test_rows_without_a_profile_in_common_do_not_yield():
    listed = dict.fromkeys(spec.load().profiles)
    rows = [
        make_row("ours", behaviour={**listed, "complete": "deterministic"}),
        make_row("theirs", "cuda", behaviour={**listed, "torch-2.12": "deterministic"}),
    ]
    loaded = dataclasses.replace(spec.load(), rows=tuple(rows))
    assert [yields_to(row, loaded) for row in rows] == [(), ()]


def test_rows_that_do_not_speak_do_not_decide():
    unlisted = dict.fromkeys(spec.load().profiles)
    rows = [
        make_row("other op", op="other"),
        make_row("backward", direction="backward"),
        make_row("cpu", "cpu"),
        make_row("unlisted", behaviour=unlisted),
        make_row("out of scope", state="out_of_scope"),
    ]
    assert decide(rows) is None
    assert decide(rows, direction="backward") == "backward"
