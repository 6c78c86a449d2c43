"""The command of a run in rounds: with a stand-in for pytest, and once with real workers."""

import json
import os
import signal
import subprocess
import sys
import types
from importlib.resources import files

import jsonschema
import pytest

from conformance import __main__ as command
from conformance.adapters import loading
from conformance.hardware import options, plugin, run_command
from conformance.reporting import report
from conformance.reporting.report import Record
from conformance.suite.cells import cells
from conformance.tests.reporting._records import PASSED, changed

SCHEMA = json.loads(
    (files("conformance.reporting") / "report_schema.json").read_text(encoding="utf-8")
)
PARTS = [(1, "again"), (2, "again"), (1, "not again")]


def line(number=1, *records):
    fields = [vars(record) for record in records or (PASSED,)]
    return {"round": number, "test": f"test[{len(fields)}]", "outcome": "passed", "records": fields}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs two rounds in which each part adds these lines to the journal."""
    pytest.importorskip("xdist")
    commands = []

    def run_(lines=(), status=0, arguments=()):
        def session(command, *_):
            commands.append(command)
            number = int(next(w for w in command if w.startswith("--round=")).partition("=")[2])
            part = number, command[command.index("-m", 3) + 1]
            done = [{"round": part[0], "complete": part[1]}] if status == 0 else []
            with (tmp_path / "r.json.journal").open("a") as file:
                file.writelines(json.dumps(x) + "\n" for x in [*lines, *done])
            return status

        monkeypatch.setattr(run_command, "_run", session)
        rounds = options.RoundOptions(3, 2, 8.0, 100)
        under_test = loading.load("impl")
        path = tmp_path / "r.json"
        return run_command.run(under_test, rounds, arguments, path, start_time=0.0), commands

    return run_


def test_bits_come_first_and_each_round_has_its_options(run, tmp_path):
    status, commands = run([line()])
    assert status == 0
    assert list(run_command._parts([], 2)) == PARTS
    assert [command[command.index("-m", 3) + 1] for command in commands] == [m for _, m in PARTS]
    first, later, _ = commands
    assert {"--background-work", "--repeats=100", "--round=1", "-n", "3"} <= set(first)
    assert {"--repeats=3", "--round=2"} <= set(later)
    assert "--background-work" not in later
    jsonschema.validate(json.loads((tmp_path / "r.json").read_text()), SCHEMA)
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


def test_a_run_continues_where_it_stopped(run, tmp_path, capsys):
    status, commands = run([line()], status=2)
    assert (status, len(commands)) == (options.UNFINISHED, 1)
    assert "the same command goes on with them" in capsys.readouterr().out
    left = report.read(tmp_path / "r.json").environment["left"]
    assert left == (
        "some tests were not run: 'again' in round 1, 'again' in round 2, 'not again' in round 1"
    )
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
    first, failed, passed = run_command.compared(lines, "impl")
    assert (first, passed) == (PASSED, same)
    assert failed.outcome == "failed"
    for word in (PASSED.row, PASSED.sha256, "1" * 64, run_command.rerun_command(PASSED)):
        assert word in failed.detail


def test_the_command_for_a_row_alone_selects_it():
    record = Record(**{**vars(PASSED), "row": "R0001", "op": "index_add", "device": "cuda"})
    name = f'R0001-index_add-{record.direction}-cuda-{record.profile}"'
    assert (
        run_command.rerun_command(record) == f'python -m conformance run --device cuda -k "{name}'
    )
    assert " --namespace other -k " in run_command.rerun_command(record, "other")


def test_options_of_xdist_are_refused(capsys):
    round_options = options.RoundOptions(1, 2, None, None)
    for words in (["-n", "4"], ["-n4"]):
        under_test = loading.load("impl")
        assert run_command.run(under_test, round_options, words, None, start_time=0) == 2
        assert "--processes N" in capsys.readouterr().err


def test_workers_share_the_device_and_no_programs(monkeypatch):
    for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(name, raising=False)
    environment = run_command._variables(6)
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.15"
    assert environment["JAX_ENABLE_COMPILATION_CACHE"] == "false"
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    environment = run_command._variables(6)
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in environment
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


def test_a_round_ends_at_the_deadline_and_by_sigterm():
    handler = signal.getsignal(signal.SIGTERM)
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert run_command._run(sleep, 1, 0.0) == signal.SIGINT
    kill = f"import os, time; os.kill({os.getpid()}, {int(signal.SIGTERM)}); time.sleep(60)"
    assert run_command._run([sys.executable, "-c", kill], 1, None) == signal.SIGINT
    assert signal.getsignal(signal.SIGTERM) is handler
    assert run_command._run([sys.executable, "-c", "raise SystemExit(5)"], 1, None) == 5


def test_a_change_of_the_code_changes_the_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(run_command, "_PACKAGES", ("changing",))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "changing" / "tests").mkdir(parents=True)
    digests = []
    for name, text in (("__init__.py", ""), ("a.toml", "x"), ("a.toml", "y"), ("tests/t.py", "")):
        (tmp_path / "changing" / name).write_text(text)
        digests.append(run_command.source_digest())
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]


@pytest.mark.once
def test_a_run_with_real_workers_finds_other_bits(tmp_path, capfd):
    pytest.importorskip("xdist")
    # One profile is collected faster than all.
    words = ["--profile", "complete", "-k", "test_bits and sort-forward-cpu and floating"]
    path = tmp_path / "r.json"
    arguments = ["--processes", "1", "--rounds", "2", "--report", str(path), *words]
    faults = ["-p", "conformance.tests.hardware.faulty_plugin"]
    status = command.main(["run", *arguments, *faults])
    output = capfd.readouterr().out
    assert status == 1, output
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    records = report.read(path).records
    assert {(r.check, r.outcome, r.evidence) for r in records} == {
        ("bits", "passed", "hardware"),
        ("bits in fresh process 2", "failed", "hardware"),
    }, output
    (detail,) = (r.detail for r in records if r.check == "bits")
    assert detail == "2 runs during allocations and copies of changing sizes"
    for word in ("alone: python -m conformance run", "rows by evidence"):
        assert word in output
    assert {each.name for each in tmp_path.iterdir()} == {"r.json"}  # The run is complete.


def test_a_process_that_ended_has_a_record_of_the_row():
    (cell, *_) = (cell for cell in cells() if cell.op == "sort" and cell.row)
    report_of_crash = types.SimpleNamespace(nodeid=f"test_rows.py::test_no_race[{cell}]")
    record = plugin._crashed(report_of_crash, 2)
    assert (record.row, record.check) == (cell.row.id, "no race in fresh process 2")
    assert record.outcome == "failed"
    assert record.detail.startswith("the process ended during this test")


@pytest.mark.once
def test_a_process_that_dies_or_hangs_or_lost_its_device_is_replaced(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text(
        "from conformance.hardware import plugin\n"
        "plugin.TEST_TIMEOUT = 2.0\n"
        "plugin._device_answers = lambda: False\n"
    )
    (tmp_path / "test_faults.py").write_text(
        "import os, time\ndef test_fails(): assert 0\ndef test_hangs(): time.sleep(60)\n"
        "def test_dies(): os.kill(os.getpid(), 9)\ndef test_passes(): pass\n"
    )
    journal = tmp_path / "journal"
    names = ("options", "records")
    plugins = [f"-pconformance.pytest_plugin.{name}" for name in names]
    plugins += ["-pconformance.hardware.plugin", "-pno:randomly", "-pno:cacheprovider"]
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
    with journal.open("a") as file:
        file.write('{"round": 1, "test": "cut')  # The process ended while it wrote this line.
    assert plugin.read(journal) == [*lines, last]
