"""The benchmarks measure what they say; not how fast it is."""

import re

import pytest

from conformance.benchmarks import __main__ as command
from conformance.benchmarks import scatter, timing


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(scatter, "SIZES", ((20, 3000, 1), (5, 300, 2)))


def test_a_table_names_the_machine_the_sides_and_how_to_repeat_it(capsys, tmp_path):
    file = tmp_path / "table.md"
    assert command.main(["--rounds", "2", "--write", str(file)]) == 0
    said = capsys.readouterr().out
    assert file.read_text() == said
    assert timing.machine() in said
    assert "python -m conformance.benchmarks --times 1 --rounds 2" in said
    rows = [line for line in said.splitlines() if re.match(r"\| \d", line)]
    assert [row.split(" | ")[0] for row in rows] == ["| 20", "| 5"]
    assert scatter.PLAIN in said
    assert scatter.ORDERED in said


def test_each_side_runs_once_a_round_and_the_median_is_kept(monkeypatch):
    ran = []
    clock = iter([0, 1, 0, 5, 0, 2, 0, 6, 0, 9, 0, 7])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    sides = {"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}
    assert timing.median_ms(sides, rounds=3, warmups=1) == {"a": 2e3, "b": 6e3}
    assert "".join(ran) == "ab" * 4


@pytest.mark.parametrize(
    "arguments", [["--times", "0"], ["--rounds", "0"], ["--write", "no/such/folder/t.md"]]
)
def test_bad_options_are_refused_before_anything_is_measured(arguments, capsys, monkeypatch):
    monkeypatch.setattr(scatter, "measure", None)
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err
