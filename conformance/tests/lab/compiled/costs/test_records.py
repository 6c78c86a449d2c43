"""The lines and the data of costs."""

import json

import pytest

from conformance.lab.compiled import launches
from conformance.lab.compiled.costs import records
from conformance.lab.compiled.costs.counts import CaseCost
from conformance.tests.lab.compiled.optimised_programs import LOOP


@pytest.fixture
def cost():
    side = launches.account_of(LOOP)
    return CaseCost("f-8", "h200", {"on": side, "plain": side}, {"off": "ValueError: no"}, 0.5)


def test_a_case_is_a_line_and_each_launch_is_explained(cost):
    short = "11 launches, 411 bytes, 5.3 floors"
    assert records.line(cost) == f"f-8: on {short}; plain {short}; off cannot be counted (0.5 s)"
    lines = list(records.explanation(cost))
    assert lines[0] == f"f-8, on: {short} of 78 bytes"
    assert lines[2] == "              320 bytes,    5 x next, fusion, made by XLA"
    assert lines[-1] == "f-8, off: ValueError: no"


def test_cases_that_are_not_counted_again_stay(cost, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "DATA", tmp_path / "costs.json")
    data = records.data(cost)
    assert data["plain"] == {"launches": 11, "bytes": 411, "sorts": 0}
    records.write({"f-8": data, "g-8": data, "gone-8": data}, ["f-8", "g-8", "gone-8"], "h200")
    records.write({"g-8": {**data, "floor": 1}}, ["f-8", "g-8"], "h200")
    cases = json.loads(records.DATA.read_text())["cases"]
    assert {name: case["floor"] for name, case in cases.items()} == {"f-8": 78, "g-8": 1}
    with pytest.raises(ValueError, match="write all cases"):
        records.write({"g-8": data}, ["f-8", "g-8"], "h100")
