"""Files of expectations: their meaning, refused entries, and the update by a report.

Tests: conformance.reporting.expectations.
"""

import dataclasses
import tomllib

import pytest

from conformance import __main__ as command
from conformance.adapters import base
from conformance.reporting import expectations, report
from conformance.reporting.expectations import Expectation
from conformance.suite import test_rows
from conformance.suite.cells import cells
from conformance.tests.reporting._records import changed

TEST = "test_bits[R0095-index_put-forward-cpu-torch-2.12-written]"


def entry(*ids, **fields):
    return Expectation(ids, fields.pop("outcome", "fail"), "A reason.", **fields)


@pytest.mark.parametrize(
    "id",
    [
        "R0095",
        "index_put",
        TEST,
        TEST[10:-1],
        "*-written",
        "R0095-*-cpu-*",
        "test_bits[*",
        "*index_put-forward*",
    ],
)
def test_an_id_means_a_test(id):
    assert entry("R0001", id).matches(TEST, "cpu") == [id]


@pytest.mark.parametrize("id", ["R009", "index", "written", "test_bits", "R0095-*-cuda-*", "[cpu]"])
def test_an_id_means_no_other_test(id):
    assert entry(id).matches(TEST, "cpu") == []


def test_a_device_is_that_of_the_cell_and_tests_of_no_cell_are_meant_by_their_whole_name():
    assert entry("R0095", device=("cuda",)).matches(TEST, "cpu") == []
    assert entry("R0095", device=("cuda", "cpu")).matches(TEST, "cpu") == ["R0095"]
    assert entry("gather").matches("test_op_exists[gather]") == []
    assert entry("test_op_exists[gather]").matches("test_op_exists[gather]") != []


@pytest.mark.parametrize(
    ("versions", "version", "holds"),
    [
        (">=2.12,<2.14", "2.13.0+cpu", True),
        (">=2.12,<2.14", "2.14.0", False),
        (">=2.12", "2.15.0.dev2026", True),
    ],
)
def test_a_version_is_in_a_range(versions, version, holds):
    assert entry("a", versions={"torch": versions}).holds({"torch": version}) is holds
    assert not entry("a", versions={"torch": versions}).holds({"jax": version})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ids = ["a"]\noutcome = "fail"', "gives no reason; say why"),
        ('ids = ["a"]\noutcome = "fail"\nreason = " "', "gives no reason; say why"),
        ('ids = []\noutcome = "fail"\nreason = "b"', r"it needs a list of one or more names"),
        ('ids = "a"\noutcome = "fail"\nreason = "b"', r"it needs a list of one or more names"),
        ('ids = ["a"]\noutcome = "pass"\nreason = "b"', "has outcome 'pass'; allowed:"),
        ('ids = ["a"]\nreason = "b"', "has outcome None; allowed:"),
        ('ids = ["a"]\noutcome = "fail"\nreason = "b"\nwhy = "c"', r"unknown keys \['why'\]"),
        ('ids = ["a"]\noutcome = "fail"\nreason = "b"\nstrict = 1', "has strict 1; allowed:"),
        (
            'ids = ["a"]\noutcome = "fail"\nreason = "b"\nwhen = { torch = "new" }',
            "when.torch is not a range of versions",
        ),
        ('ids = ["a", "a"]\noutcome = "fail"\nreason = "b"', "a stands in two entries"),
        ("ids = [", "expect.toml"),
        ('[[other]]\nids = ["a"]', r"unknown \['other'\]"),
    ],
)
def test_a_malformed_file_is_refused(text, message, tmp_path, capsys):
    path = tmp_path / "expect.toml"
    path.write_text(text if "other" in text else f"[[expect]]\n{text}\n")
    with pytest.raises(ValueError, match=message):
        expectations.read(path)
    assert command.main(["run", "--expectations", str(path)]) == 2
    assert f"--expectations {path}" in capsys.readouterr().err


def test_what_is_written_is_read_as_it_was(tmp_path):
    path = tmp_path / "expect.toml"
    path.write_text('# Why "this".\n# More.\n\n[[expect]]\n')
    entries = (
        Expectation(("a-*", 'b\\"'), "fail", 'Says "so".', ("cpu",), {"torch": ">=2"}, False),
        entry("c", outcome="missing"),
    )
    expectations.write(path, entries)
    assert path.read_text().startswith('# Why "this".\n# More.\n\n[[expect]]\nids = [\n')
    assert [dataclasses.asdict(e) for e in expectations.read(path)] == [
        dataclasses.asdict(e) for e in entries
    ]


def test_the_expectations_of_this_implementation_are_read_and_are_none():
    assert expectations.read(base.load("impl").expectations) == ()


def record(op, sample, outcome, check="off", **fields):
    about = {"row": None, "device": "cpu", "profile": "torch-2.12", **fields}
    return changed(op=op, sample=sample, outcome=outcome, check=check, **about)


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
    new = {"outcome": "fail", "when": {"device": ["cpu"]}, "reason": ""}
    assert entries == [
        {"ids": ["*-gather-*"], "outcome": "fail", "reason": "A reason."},
        {"ids": ["*-put-forward-cpu-*-written"], **new},
        {"ids": ["test_off[unlisted-mode-forward-cpu-torch-2.12-floating]"], **new},
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
