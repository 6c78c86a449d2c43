"""The loop of a run, with processes that stand in for workers."""

import json
import os
import re
import signal
from importlib.resources import files

import jsonschema
import pytest

from conformance.hardware import jobs, runner, worker_process
from conformance.hardware.results import RunResults
from conformance.hardware.run_folder import RunFolder
from conformance.reporting import report
from conformance.tests.hardware.examples import planned
from conformance.tests.hardware.scripted_worker import scripted_settings

pytestmark = pytest.mark.once

SCHEMA = json.loads(
    (files("conformance.reporting") / "report_schema.json").read_text(encoding="utf-8")
)


def run(tmp_path, *names, rounds=1, count=2, **limits):
    """Runs tests with these names in scripted workers; returns the runner and the report."""
    results = RunResults(jobs.expected_keys(planned(*names), rounds), "impl")
    path = tmp_path / "r.json"
    folder = RunFolder(tmp_path / "r.json.parts", {})
    write_report = runner.report_writer(results, path, {"jax": "1"})
    loop = runner.Runner(results, scripted_settings(count), folder, write_report, **limits)
    loop.run(jobs.jobs(planned(*names), rounds, count, results.finished))
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    return loop, report.read(path)


def test_rounds_run_and_are_compared(tmp_path, capsys):
    loop, written = run(tmp_path, "passes", "shifts", "fails", "loses", rounds=3)
    assert loop.stop_reason is None
    assert loop.results.unfinished_count == 0
    # The later rounds of "shifts" are compared with its first.
    assert set(loop.results.failures()) == {
        "shifts in fresh process 2",
        "shifts in fresh process 3",
        "fails",
        "fails in fresh process 2",
        "fails in fresh process 3",
    }
    assert len(written.records) == 12
    assert "left" not in written.environment
    assert "another process runs its 1 remaining tests" not in capsys.readouterr().out


def test_a_process_that_dies_is_named_and_loses_no_result(tmp_path, capsys):
    loop, written = run(tmp_path, "passes", "dies", "exits", "passes more", count=1)
    assert loop.stop_reason is None
    assert loop.results.unfinished_count == 0
    failures = loop.results.failures()
    assert failures["dies"].startswith("the process was ended by SIGSEGV during this test")
    assert failures["exits"].startswith("the process ended with status 3 during this test")
    assert [r.outcome for r in written.records] == ["passed", "failed", "failed", "passed"]
    assert written.records[1].detail == "the process was ended by SIGSEGV during this test"
    assert written.records[1].check == "bits"
    assert "FAILED dies" in capsys.readouterr().out
    # The failed tests are in a journal too, so a run that continues does not repeat them.
    tests = RunFolder(tmp_path / "r.json.parts", {}).finished_tests()
    assert {test.key for test in tests} == loop.results.finished


def test_a_process_that_lost_its_device_is_replaced(tmp_path, capsys):
    loop, _ = run(tmp_path, "loses", "passes", count=1)
    assert loop.results.unfinished_count == 0
    assert loop.results.failures() == {}
    assert "another process runs its 1 remaining tests" in capsys.readouterr().out


def test_a_test_that_does_not_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_process, "TEST_TIMEOUT", 0.6)
    loop, written = run(tmp_path, "hangs", "passes", count=1)
    message = "the test had not ended after 1 s and was stopped"
    assert loop.results.failures() == {"hangs": message}
    assert [r.outcome for r in written.records] == ["failed", "passed"]


def test_processes_that_never_start_end_the_run(tmp_path, capsys):
    loop, _ = run(tmp_path, "never starts", count=1)
    assert loop.stop_reason == "a process ended with status 4"
    assert loop.results.unfinished_count == 1
    assert "no such device" in capsys.readouterr().out


@pytest.mark.usefixtures("clock_that_jumps")
def test_the_run_stops_at_its_deadline_and_the_rest_can_run_later(tmp_path):
    names = ("passes", "hangs")
    loop, written = run(tmp_path, *names, rounds=2, count=1, deadline=9.0)
    assert loop.stop_reason == "the time of --minutes is over"
    assert written.environment["left"] == f"{loop.results.unfinished_count} of 4 tests were not run"
    assert len(written.records) == 1
    tests = RunFolder(tmp_path / "r.json.parts", {}).finished_tests()
    assert [test.key for test in tests] == [(1, "passes")]
    finished = {test.key for test in tests}
    remaining = [job.tests for job in jobs.jobs(planned(*names), 2, 1, finished)]
    assert remaining == [("hangs",), ("passes", "hangs")]


def test_the_run_stops_after_the_requested_number_of_failures(tmp_path):
    loop, _ = run(tmp_path, "fails", "fails 2", "hangs", count=1, max_failures=2)
    assert loop.stop_reason == "2 failure(s), after which -x or --maxfail stops"
    assert loop.results.unfinished_count == 1


def test_a_run_that_is_asked_to_end_writes_its_report(tmp_path, monkeypatch):
    handler = signal.getsignal(signal.SIGTERM)
    add = RunResults.add

    def add_and_interrupt(results, test):
        add(results, test)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(RunResults, "add", add_and_interrupt)
    loop, written = run(tmp_path, "passes", "hangs")
    assert loop.stop_reason == "it was interrupted"
    assert [r.outcome for r in written.records] == ["passed"]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_progress_counts_tests_failures_and_processes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "_PROGRESS_INTERVAL", 0.0)
    run(tmp_path, "fails", "passes", count=1)
    line = r" s: [012] of 2 tests, [01] failed; at work: [01], in round"
    assert re.search(line, capsys.readouterr().out)
