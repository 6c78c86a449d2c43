"""The command measures every family that it can, and says what it could not."""

import contextlib
import json
import sys
import types

import pytest

from conformance import __main__ as command
from conformance.benchmarks import bench_command
from conformance.benchmarks.case import Case
from conformance.benchmarks.families import elementary, scans
from conformance.benchmarks.measurements import Report

pytestmark = pytest.mark.once


def family(cases):
    return types.SimpleNamespace(TITLE="T", BASE="ours", OURS="ours", cases=cases)


@pytest.fixture(autouse=True)
def two_families(monkeypatch):
    """The families are one that works and one that does not."""

    def fail(_):
        raise ValueError("no memory")

    works = family(lambda _: [Case({"case": "one"}, {"ours": lambda: None}, ours="ours")])
    monkeypatch.setattr(bench_command, "torch_peer", contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, elementary.__name__, works)
    monkeypatch.setitem(sys.modules, scans.__name__, family(fail))


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

    monkeypatch.setitem(sys.modules, scans.__name__, family(need_flax))
    assert bench("scans") == 0
    assert "scans: not measured: it needs flax" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--times", "0"], "--times 0: it must be 1 or more"),
        (["--report", "no/such/folder/r.json"], "there is no folder"),
        (["--device", "cuda"], "JAX sees no such device here"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(options, message, capsys):
    assert bench("scans", options=options) == 2
    assert message in capsys.readouterr().err
