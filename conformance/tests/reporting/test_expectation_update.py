"""Files of expectations are brought up to date with a report."""

import tomllib

import pytest

from conformance import __main__ as command
from conformance.reporting import expectations, report
from conformance.reporting.expectations import Expectation
from conformance.suite import test_rows
from conformance.suite.cells import cells


def entry(*ids, **fields):
    return Expectation(ids, fields.pop("outcome", "fail"), "A reason.", **fields)


def record(op, sample, outcome, check="off", **fields):
    about = {
        "row": None,
        "op": op,
        "direction": "forward",
        "device": "cpu",
        "profile": "torch-2.12",
        "check": check,
        "sample": sample,
    }
    return report.from_property({**about, **fields}, outcome, 0.1)


@pytest.fixture
def rewritten(tmp_path):
    """Rewrites a file with entries by a report of records, and reads it as it then is."""

    def run(entries, records):
        path, made = tmp_path / "expect.toml", tmp_path / "report.json"
        expectations.write(path, entries)
        report.write(made, {"torch": "2.13.0+cpu", "device": "cpu"}, records)
        sentence = expectations.rewrite(path, made)
        return sentence, tomllib.loads(path.read_text()).get("expect", [])

    return run


def test_rewriting_keeps_reasons_takes_away_what_passes_and_adds_what_is_new(rewritten):
    sentence, entries = rewritten(
        [entry("*-gather-*", "*-sort-*"), entry("take")],
        [
            record("gather", "1d", "failed", detail="expected: A reason."),
            record("sort", "floating", "passed"),
            record("take", "2d", "passed"),
            record("put", "written", "failed"),
            record("put", "written", "failed", "unlisted"),
            record("mode", "floating", "failed"),
            record("mode", "floating", "passed", "unlisted"),
        ],
    )
    assert sentence.endswith(
        "2 id(s) removed, 2 added; write the reasons, without which the file is refused"
    )
    assert entries == [
        {"ids": ["*-gather-*"], "outcome": "fail", "reason": "A reason."},
        {
            "ids": ["*-put-forward-cpu-*-written"],
            "outcome": "fail",
            "when": {"device": ["cpu"]},
            "reason": "",
        },
        {
            "ids": ["test_off[unlisted-mode-forward-cpu-torch-2.12-floating]"],
            "outcome": "fail",
            "when": {"device": ["cpu"]},
            "reason": "",
        },
    ]


def test_rewriting_leaves_what_the_report_cannot_speak_of(rewritten):
    unjudged = [
        entry("a", versions={"torch": "<2"}),
        entry("b", device=("cuda",)),
        entry("c", outcome="skip"),
        entry("d", strict=False),
        entry("e", outcome="missing"),
    ]
    stale = entry("take", outcome="missing")
    sentence, entries = rewritten([*unjudged, stale], [record("take", "2d", "passed")])
    assert sentence.endswith("1 id(s) removed, 0 added")
    assert [e["ids"] for e in entries] == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_names_of_tests_are_those_of_the_suite():
    some = cells()[0]
    made = report.from_property({**some.about, "check": "warn only"}, "passed", 0.0)
    assert expectations.test(made) == f"test_warn_only[{some}]"
    for check in ("off", "bits", "no_race", "raise", "warn_only", "unlisted", "fill"):
        assert hasattr(test_rows, f"test_{check}")


def test_a_rewrite_without_a_report_is_refused(tmp_path, capsys):
    arguments = ["expectations", "--rewrite", str(tmp_path / "a.toml"), "--report", "none.json"]
    assert command.main(arguments) == 2
    assert "none.json" in capsys.readouterr().err
    assert not (tmp_path / "a.toml").exists()
