"""A report is read as it was written; tables are made of it."""

import json

import pytest

from conformance import __main__ as command
from conformance.benchmarks import measurements
from conformance.benchmarks.measurements import (
    Family,
    Measurement,
    MeasurementsError,
    Report,
    Times,
)


def measurement(n, slow):
    return Measurement(
        case={"size": f"{n:,}"},
        sides={"plain": Times.of([1.0, 2.0, 3.0]), "ours": Times.of([slow])},
        refused={"PyTorch": "no deterministic implementation"},
        temporary_bytes=32,
        floor_bytes=64,
        copy_ms=0.5,
        n=n,
    )


REPORT = Report(
    made="2026-01-02T03:04:05+00:00",
    environment={
        **dict.fromkeys(("python", "jax", "jaxlib", "torch"), "1.2"),
        "platform": "cpu",
        "device": "a CPU",
        "threads": "2",
        "load": "0.1",
    },
    command="python -m conformance bench --family f",
    families={
        "f": Family("Title", "plain", "ours", ("a remark",), (measurement(8, 4.0),)),
        "g": Family("Curve", "plain", "ours", (), (measurement(8, 4.0), measurement(80, 9.0))),
    },
    without={"h": "it needs flax"},
)


def test_a_report_is_read_as_it_was_written(tmp_path):
    REPORT.write(tmp_path / "r.json")
    assert Report.read(tmp_path / "r.json") == REPORT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "is not a report of the benchmarks"),
        ("[]", "is not a report of the benchmarks"),
        (json.dumps({"format": 0}), "has the format 0"),
        (json.dumps({"format": 1, "families": {}}), "is not a report of the benchmarks"),
    ],
)
def test_another_file_is_refused(text, message, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(MeasurementsError, match=message):
        Report.read(path)


def test_a_table_shows_times_ratios_spread_rate_and_what_was_refused():
    table = measurements.table(REPORT, REPORT.families["f"])
    assert "a CPU, 2 threads, Python 1.2, jax 1.2" in table
    assert "`python -m conformance bench --family f`, 2026-01-02" in table
    # 64 bytes in 4 ms; a copy of them takes 0.5 ms.
    assert "| 8 | 2 (1.0) | 4 (2.0) | 0% | 0.0 | 8.0 | 32 |" in table
    assert "- a remark\n- Refused: no deterministic implementation\n" in table


def test_the_command_prints_tables_or_refuses_a_file(tmp_path, capsys):
    path = tmp_path / "r.json"
    assert command.main(["tables", str(path)]) == 2
    assert "python -m conformance tables:" in capsys.readouterr().err
    REPORT.write(path)
    assert command.main(["tables", str(path)]) == 0
    assert "# Title" in capsys.readouterr().out
