"""The calls that rows tell apart."""

import spec
from spec.calls import distinct_calls, named_values


def test_values_lie_on_both_sides_of_every_test():
    rows = [row for row in spec.load().rows if row.op == "scatter_add"]
    calls = distinct_calls(rows, spec.load().facts)
    assert [call["input_ndim"] for call in calls] == [0, 1, 2, 3]


def test_every_combination_of_facts_is_a_call():
    rows = [row for row in spec.load().rows if row.op == "bmm" and row.direction == "forward"]
    calls = list(distinct_calls(rows, spec.load().facts))
    assert {call["sparse"] for call in calls} == {False, True}
    settings = {call["cublas_workspace_config"] for call in calls}
    assert settings == {"", ":16:8", ":4096:8"}
    assert len(calls) == 6


def test_the_values_of_a_test():
    assert named_values(True) == [True]
    assert named_values(("sum", "mean")) == ["sum", "mean"]
    assert named_values({"min": 2, "not": (3, 4)}) == [2, 3, 4]
