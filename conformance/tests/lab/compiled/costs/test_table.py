"""The table of costs and its data."""

import json

import pytest

from conformance.lab.compiled.costs import measured, table
from conformance.lab.compiled.costs.measured import CaseCost
from conformance.lab.compiled.device_programs import DeviceProgram, Dimensions
from conformance.tests.lab.compiled.programs import LOOP

KERNEL = "\n.visible .entry next(\n)\n{\n$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n}\n"


@pytest.fixture
def cost():
    program = DeviceProgram(LOOP, {"next": KERNEL}, {"next": Dimensions(3, 4, 16)}, with_cub=False)
    side = measured.cost_of(program, {})
    return CaseCost("f-8", "h200", {"on": side, "plain": side}, {}, 0.5)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(measured.assembler, "find_assembler", lambda: None)
    monkeypatch.setattr(table, "TABLE", tmp_path / "costs.md")
    monkeypatch.setattr(table, "SAMPLES", tmp_path / "costs_of_samples.md")
    monkeypatch.setattr(table, "DATA", tmp_path / "costs.json")


def test_a_case_is_a_row(cost):
    (_, _, row) = table.rows({"f-8": table.data(cost, ["launches"])})
    expected = "f-8 | 61 | 1.6 kB | 23.9 | at most 20 |  | launches | 61 | 1.6 kB (1.0) |  | "
    assert row == f"| {expected} |"


def test_each_launch_is_explained(cost):
    lines = list(table.explanation(cost))
    assert lines[1] == "  loop loop: at most 20 rounds; jit(f)/while"
    (line,) = (line for line in lines[: len(lines) // 2] if line.endswith("  next"))
    assert line.split() == [
        "1",
        "x",
        "20",
        "1,280",
        "kernel",
        "3",
        "x",
        "4",
        "16",
        "1",
        "0",
        "next",
    ]


def test_what_is_not_counted_again_stays(cost):
    made = table.data(cost, [])
    table.write({"f-8": made, "g-8": made, "gone-8": made}, ["f-8", "g-8", "gone-8"], "h200")
    table.write({"g-8": {**made, "floor": 1}}, ["f-8", "g-8"], "h200")
    cases = json.loads(table.DATA.read_text())["cases"]
    assert {name: case["floor"] for name, case in cases.items()} == {"f-8": 68, "g-8": 1}
    assert "gone" not in table.TABLE.read_text()
    table.write({"sample-f": made}, ["f-8", "sample-f"], "h200")
    assert "sample-f" not in table.TABLE.read_text()
    assert "sample-f | 61" in table.SAMPLES.read_text()
    with pytest.raises(ValueError, match="write all cases"):
        table.write({"g-8": made}, ["f-8", "g-8"], "h100")
