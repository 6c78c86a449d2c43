"""The command measures every family that it can, and says what it could not."""

import contextlib
import dataclasses
import json

import jax
import pytest

from conformance import __main__ as command
from conformance.benchmarks import bench_command
from conformance.benchmarks.engine import Benchmark, Case
from conformance.benchmarks.families import calls, whole
from conformance.benchmarks.measurements import Report

pytestmark = pytest.mark.once


def family(cases):
    return Benchmark("T", "ours", "ours", cases)


@pytest.fixture(autouse=True)
def two_families(monkeypatch):
    """The families are one that works and one that does not."""

    def fail(_):
        raise ValueError("no memory")

    works = family(lambda _: [Case({"case": "one"}, {"ours": lambda: None})])
    monkeypatch.setattr(bench_command, "torch_peer", contextlib.nullcontext)
    monkeypatch.setitem(calls.FAMILIES, "elementary", works)
    monkeypatch.setitem(calls.FAMILIES, "scans", family(fail))


def bench(*families, options=()):
    words = [word for name in families for word in ("--family", name)]
    return command.main(["bench", *words, *options])


def test_a_family_that_fails_leaves_the_others_and_their_report(tmp_path, capsys):
    path = tmp_path / "r.json"
    options = ["--quick", "--report", str(path)]
    assert bench("elementary", "scans", options=options) == 1
    out, err = capsys.readouterr()
    assert "| one | " in out
    assert "scans: FAILED: ValueError: no memory" in err
    report = Report.read(path)
    assert list(report.families) == ["elementary"]
    assert report.without == {"scans": "ValueError: no memory"}
    expected = "bench --family elementary --family scans --quick --report r.json"
    assert report.command == f"python -m conformance {expected}"
    assert json.loads(path.read_text())["environment"]["jax"]


def test_a_family_whose_library_is_absent_is_no_failure(capsys, monkeypatch):
    def need_flax(_):
        raise ModuleNotFoundError("No module named 'flax'", name="flax")

    monkeypatch.setitem(calls.FAMILIES, "scans", family(need_flax))
    assert bench("scans") == 0
    assert "scans: not measured: it needs flax" in capsys.readouterr().err


def test_a_report_without_a_folder_is_refused_before_anything_is_measured(capsys):
    assert bench("scans", options=["--report", "no/such/folder/r.json"]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_family_about_several_devices_has_them_in_a_process(capsys, monkeypatch):
    few = dataclasses.replace(whole.FAMILIES["portable"], cases=_count_devices)
    monkeypatch.setattr(bench_command, "benchmark", lambda _: few)
    assert bench("portable") == 0
    lines = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[lines.index("| ---") :][1:3] == ["| 1", "| 8"]


def _count_devices(_):
    yield Case({"devices": f"{jax.device_count()}"}, dict.fromkeys(("plain", "portable"), int))
