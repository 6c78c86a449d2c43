"""The records of a report, from calls that were checked."""

from conformance.lab.compiled import known_faults, report_records
from conformance.reporting import report
from conformance.tests.lab.compiled.examples import checked_call


def test_records_are_one_for_each_row_behaviour_and_target(tmp_path):
    calls = [
        checked_call(),
        checked_call(profile="torch-2.12"),
        checked_call(target="a100"),
        checked_call(behaviour="raise"),
    ]
    records = list(report_records.records(calls, ()))
    assert [(r.lowering, r.profile, r.check, r.evidence) for r in records] == [
        ("h200", None, "compiled", "compiled"),
        ("a100", "complete", "compiled", "compiled"),
        ("h200", "complete", "compiled, warn only", None),
    ]
    assert records[0].detail == "2 programs, 2 kernels, at most 40 registers, no spills"
    assert len({record.key for record in records}) == len(records)
    report.write(tmp_path / "r.json", {}, records)
    assert report.read(tmp_path / "r.json").strongest() == {("R0001", "cuda"): "compiled"}


def test_a_record_states_which_sort_stands_in_for_that_of_the_device():
    details = {
        sorts: next(report_records.records([checked_call(sorts=sorts)], ())).detail
        for sorts in ((), ("CUB",), ("XLA",))
    }
    assert "stands in" in details["XLA",]
    assert "stands in" not in details[()] + details["CUB",]


def test_a_record_fails_or_is_skipped_with_its_reason():
    entries = known_faults.parse(
        [{"ops": ["index_add"], "message": "no config", "reason": "No device."}]
    )
    (failed,) = report_records.records(
        [checked_call("it races: x"), checked_call("no config")], entries
    )
    assert (failed.outcome, failed.detail) == (
        "failed",
        "R0001-index_add-complete: it races: x; No device.",
    )
    (skipped,) = report_records.records([checked_call(), checked_call("no config")], entries)
    assert (skipped.outcome, skipped.detail) == ("skipped", "No device.")
