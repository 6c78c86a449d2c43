"""The command of a run in rounds: with a stand-in for pytest, and with real processes.

Tests: conformance.run_in_rounds, conformance.pytest_plugin.run.
"""

import argparse
import json
import subprocess
import sys
import time

import jsonschema
import pytest

import impl
from conformance import __main__ as command
from conformance import bits, run_in_rounds
from conformance.adapters import base
from conformance.pytest_plugin import run as plugin
from conformance.reporting import report
from conformance.suite.cells import cells
from conformance.tests.reporting._records import PASSED, SCHEMA, changed

PARTS = [(1, "again"), (2, "again"), (1, "not again")]


def line(number=1, *records):
    fields = [vars(record) for record in records or (PASSED,)]
    return {"round": number, "test": f"test[{len(fields)}]", "outcome": "passed", "records": fields}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs two rounds in which each part adds these lines to the journal."""
    commands = []

    def run_(lines=(), status=0, arguments=()):
        def session(words, _):
            commands.append(words)
            number = int(next(w for w in words if w.startswith("--round=")).partition("=")[2])
            done = [{"round": number, "complete": words[words.index("-m") + 1]}]
            with (tmp_path / "r.json.journal").open("a") as file:
                file.writelines(json.dumps(x) + "\n" for x in [*lines, *done * (status == 0)])
            return status

        monkeypatch.setattr(run_in_rounds, "_run", session)
        options = argparse.Namespace(
            rounds=2, repeats=None, minutes=None, report=tmp_path / "r.json"
        )
        adapter = base.load("impl")
        return run_in_rounds.run(adapter, options, arguments, on_gpu=True), commands

    return run_


def test_bits_come_first_and_each_round_has_its_options(run, tmp_path):
    status, commands = run([line()])
    assert status == 0
    assert list(run_in_rounds._parts([], 2)) == PARTS
    assert [words[words.index("-m") + 1] for words in commands] == [mark for _, mark in PARTS]
    first, later, _ = commands
    assert {"--other-work", "--repeats=100", "--round=1"} <= set(first)
    assert {"--repeats=3", "--round=2"} <= set(later)
    assert "--other-work" not in later
    jsonschema.validate(json.loads((tmp_path / "r.json").read_text()), SCHEMA)
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


def test_a_run_continues_where_it_stopped(run, tmp_path, capsys):
    status, commands = run([line()], status=2)
    assert (status, len(commands)) == (run_in_rounds.UNFINISHED, 1)
    assert "the same command goes on with them" in capsys.readouterr().out
    left = report.read(tmp_path / "r.json").environment["left"]
    assert left == (
        "some tests were not run: 'again' in round 1, 'again' in round 2, 'not again' in round 1"
    )
    with (tmp_path / "r.json.journal").open("a") as file:
        file.write('{"round": 1, "test": "cut')  # The process ended while it wrote this line.
    assert run(arguments=["-k", "x"])[0] == 2
    assert "arguments  then, -k x now. Remove the file" in capsys.readouterr().err
    assert run()[0] == 0
    assert "going on: 1 tests were run before" in capsys.readouterr().out
    assert len(report.read(tmp_path / "r.json").records) == 1
    assert "left" not in report.read(tmp_path / "r.json").environment


def test_a_run_without_tests_has_the_status_of_pytest(run):
    assert run(status=4)[0] == 4
    assert len(run(status=4)[1]) == 2  # An option that is wrong is wrong in each round.


def test_different_bits_in_a_fresh_process_are_a_failure_that_states_everything():
    other = changed(sha256="1" * 64, check="bits in fresh process 2")
    same = changed(check="bits in fresh process 2")
    lines = [line(2, other), {"round": 1, "complete": "again"}, line(), line(2, same)]
    first, failed, passed = plugin.compared(lines)
    assert (first, passed) == (PASSED, same)
    assert failed.outcome == "failed"
    for word in (PASSED.sha256, "1" * 64, f"--device {PASSED.device} -k {PASSED.row}"):
        assert word in failed.detail


def test_a_round_ends_at_the_deadline():
    assert run_in_rounds._run(["--version"], time.monotonic()) is None
    assert run_in_rounds._run(["--version"], None) == 0


def test_a_round_has_the_flags_of_the_mode_and_those_of_the_caller(monkeypatch):
    given = []
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=d")
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, env, **_: given.append(env) or subprocess.CompletedProcess(command, 0),
    )
    assert run_in_rounds._run([], None) == 0
    with impl.deterministic():
        assert given[0]["XLA_FLAGS"] == f"{impl.xla_flags()} --xla_dump_to=d"


def test_a_change_of_the_code_changes_the_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(run_in_rounds, "_PACKAGES", ("changing",))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "changing" / "tests").mkdir(parents=True)
    digests = []
    for name, text in (("__init__.py", ""), ("a.toml", "x"), ("a.toml", "y"), ("tests/t.py", "")):
        (tmp_path / "changing" / name).write_text(text)
        digests.append(run_in_rounds.source_digest())
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]


def test_other_work_runs_in_a_scope_and_rests_outside():
    work = plugin.OtherWork()
    for _ in range(2):
        before = work.count
        with work.scope() as name:
            assert name == "products of matrices of changing sizes"
            assert work.count > before
            while work.count < before + 4:
                time.sleep(0.01)
        time.sleep(0.1)  # It ends what it has begun.
        before = work.count
        time.sleep(0.1)
        assert work.count <= before + 1
    work.close()
    assert not work._thread.is_alive()


def test_other_work_that_has_ended_is_an_error():
    work = plugin.OtherWork()
    work._thread.run = lambda: None
    with pytest.raises(RuntimeError, match="has ended"), work.scope():
        work._thread.join()


def pytest_configure(config):
    """As a plugin, this file has a fault that a run must find: bits differ between rounds."""
    digest, number = bits.digest, config.getoption("--round")
    bits.digest = lambda result: digest((result, number))


@pytest.mark.once
def test_a_run_finds_other_bits_in_a_fresh_process(tmp_path, capfd, monkeypatch):
    parts = [part for part in PARTS if part[1] == "again"]
    monkeypatch.setattr(
        run_in_rounds, "_parts", lambda lines, _: parts[sum("complete" in x for x in lines) :]
    )
    # One profile is collected faster than all.
    words = ["--profile", "complete", "-k", "test_bits and sort-forward-cpu and floating"]
    path = tmp_path / "r.json"
    arguments = ["--rounds", "2", "--minutes", "9", "--report", str(path), *words]
    status = command.main(["run", *arguments, "-n0", "-p", __name__])
    output = capfd.readouterr().out
    assert status == 1, output
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    records = report.read(path).records
    assert {(r.check, r.outcome, r.evidence) for r in records} == {
        ("bits", "passed", "hardware"),
        ("bits in fresh process 2", "failed", "hardware"),
    }, output
    (detail,) = (r.detail for r in records if r.check == "bits")
    assert detail == "2 runs during products of matrices of changing sizes"
    for word in ("alone: python -m conformance run", "rows by evidence"):
        assert word in output
    assert {each.name for each in tmp_path.iterdir()} == {"r.json"}  # The run is complete.


def test_a_process_that_ended_has_a_record_of_the_row():
    (cell, *_) = (cell for cell in cells() if cell.op == "sort" and cell.row)
    record = plugin._crashed(f"test_rows.py::test_no_race[{cell}]")
    assert (record.row, record.check, record.outcome) == (cell.row.id, "no race", "failed")
    assert record.detail.startswith("the process ended during this test")


@pytest.mark.once
def test_a_process_that_dies_or_hangs_or_lost_its_device_is_replaced(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text(
        "from conformance.pytest_plugin import run as plugin\n"
        "plugin.TEST_TIMEOUT = 2.0\n"
        "plugin._device_answers = lambda: False\n"
    )
    (tmp_path / "test_faults.py").write_text(
        "import os, time\ndef test_fails(): assert 0\ndef test_hangs(): time.sleep(60)\n"
        "def test_dies(): os.kill(os.getpid(), 9)\ndef test_passes(): pass\n"
    )
    journal = tmp_path / "journal"
    plugins = ["-pconformance.pytest_plugin.run", "-pno:randomly", "-pno:cacheprovider"]
    words = [sys.executable, "-m", "pytest", *plugins, f"--journal={journal}", "-n1", tmp_path]
    subprocess.run(words, capture_output=True, check=False, cwd=tmp_path)
    *lines, last = plugin.read(journal)
    assert {(line["test"].rpartition("_")[2], line["outcome"]) for line in lines} == {
        ("fails", "failed"),
        ("dies", "failed"),
        ("hangs", "failed"),
        ("passes", "passed"),
    }
    assert len(lines) == 4
    assert {len(line["records"]) for line in lines if "dies" in line["test"]} == {1}
    assert last == {"round": 1, "complete": ""}
