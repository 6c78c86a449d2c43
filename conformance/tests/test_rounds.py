"""Runs in rounds: the pieces, with processes that stand in for pytest's, and one run in earnest."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.resources import files as resources
from pathlib import Path

import jsonschema
import pytest

from conformance import implementation, report
from conformance.report import Record
from conformance.rounds import command, options, plan, processes, runner
from conformance.rounds.findings import Findings, alone
from conformance.rounds.journal import Finished, Folder, Journal, OtherRunError, Tail, sources
from conformance.tests._rounds import ABOUT, scripted

SCHEMA = json.loads((resources("conformance") / "report_schema.json").read_text(encoding="utf-8"))
#: Five groups of one to five tests; of each group the first test is one of bits.
TESTS = [plan.Planned(f"{n} {k}", f"g{n}", k == 0) for n in range(5) for k in range(n + 1)]


def planned(*names):
    return [plan.Planned(name, name, again=True) for name in names]


def test_every_test_is_in_one_share_and_a_group_is_in_one():
    for count in (1, 2, 3, 4, 9):
        shares = plan.share(TESTS, count)
        assert sorted(id for ids in shares for id in ids) == sorted(test.id for test in TESTS)
        assert len(shares) == min(count, 5)
        groups = [{id.partition(" ")[0] for id in ids} for ids in shares]
        assert sum(map(len, groups)) == 5
    sizes = [len(ids) for ids in plan.share(TESTS, 3)]
    assert max(sizes) - min(sizes) <= 1


def test_bits_come_first_and_what_is_done_is_not_done_again():
    every = list(plan.jobs(TESTS, 3, 2, ()))
    assert [job.round for job in every] == [1, 1, 2, 2, 3, 3, 1, 1]
    assert all(id.endswith(" 0") for job in every[:6] for id in job.tests)
    keys = [(job.round, id) for job in every for id in job.tests]
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == sorted(plan.wanted(TESTS, 3))
    some = set(keys[::2])
    left = [(job.round, id) for job in plan.jobs(TESTS, 3, 2, some) for id in job.tests]
    assert sorted(left) == sorted(set(keys) - some)
    assert list(plan.jobs(TESTS, 3, 2, keys)) == []


def record(**fields):
    made = {**ABOUT, "lowering": "native", "evidence": "hardware", "sha256": "0" * 64, **fields}
    return Record(outcome="passed", seconds=0.1, **made)


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path):
    tail = Tail(tmp_path / "x.jsonl")
    assert list(tail.lines()) == []
    (tmp_path / "x.jsonl").write_text('{"n": 1}\n{"n": ')
    assert list(tail.lines()) == [{"n": 1}]
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write("2}\n")
    assert list(tail.lines()) == [{"n": 2}]


def test_a_run_is_gone_on_with_only_where_it_would_find_the_same(tmp_path):
    path, found = tmp_path / "parts", Finished(1, "a", "failed", (record(),), "why")
    folder = Folder(path, {"jax": "1", "device": "x"})
    with Journal(folder.new().with_suffix(".jsonl")) as journal:
        journal.write({"event": "started", "test": "a", "about": None})
        journal.write(found.line())
    with (path / "process-001.jsonl").open("a") as file:
        file.write('{"event": "fini')  # its process died over it
    with pytest.raises(OtherRunError, match=r"device x then, y now; jax 1 then, None now.*Remove"):
        Folder(path, {"device": "y"})
    again = Folder(path, {"jax": "1", "device": "x"})
    assert again.finished() == [found]
    assert again.new().name == "process-002"
    again.close(complete=False)
    assert sorted(file.name for file in path.iterdir()) == ["process-000.jsonl", "run.json"]
    assert Folder(path, {"jax": "1", "device": "x"}).finished() == [found]
    again.close(complete=True)
    assert not path.exists()


def test_other_code_is_another_run(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.rounds.journal._PACKAGES", ("changing",))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "changing" / "tests").mkdir(parents=True)
    seen = []
    for name, text in (("__init__.py", ""), ("a.toml", "x"), ("a.toml", "y"), ("tests/t.py", "")):
        (tmp_path / "changing" / name).write_text(text)
        seen.append(sources("conformance.tests._plain"))
    assert len(set(seen)) == 3
    assert seen[2] == seen[3]


def found(test, number=1, **fields):
    return Finished(number, test, "passed", (record(**fields),))


def test_other_bits_in_a_fresh_process_are_a_failure_that_says_all():
    findings = Findings(plan.wanted(planned("a", "b"), 2), "impl")
    findings.add(found("a", 2, sha256="1" * 64, check="bits in fresh process 2"))
    assert findings.failures() == {}  # there is nothing yet to hold it against
    for each in (found("a"), found("b"), found("b", 2, check="bits in fresh process 2")):
        findings.add(each)
    (title,) = findings.failures()
    assert title == "a in fresh process 2"
    assert [r.outcome for r in findings.records()] == ["passed", "passed", "failed", "passed"]
    said = list(findings.records())[2].detail
    for word in ("R0001", "0" * 64, "1" * 64, alone(record())):
        assert word in said
    assert findings.left == 0


def test_the_command_for_a_row_alone_chooses_it():
    name = 'R0001-index_add-forward-cuda-complete"'
    assert alone(record()) == f'python -m conformance run --device cuda -k "{name}'
    assert " --namespace other -k " in alone(record(), "other")


def run(tmp_path, *names, rounds=1, count=2, done=(), **more):
    findings = Findings(plan.wanted(planned(*names), rounds), "impl")
    for each in done:
        findings.add(each)
    path = tmp_path / "r.json"
    folder = Folder(tmp_path / "r.json.parts", {})
    write = runner.report_writer(findings, path, {"jax": "1"})
    made = runner.Runner(findings, scripted(count), folder, write, **more)
    made.run(plan.jobs(planned(*names), rounds, count, findings.done))
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    return made, report.read(path)


def test_rounds_are_run_and_compared(tmp_path, capsys):
    made, written = run(tmp_path, "passes", "shifts", "fails", "loses", rounds=3)
    assert made.why is None
    assert made.findings.left == 0
    # The first round of "shifts" is what its others are held against.
    assert set(made.findings.failures()) == {
        "shifts in fresh process 2",
        "shifts in fresh process 3",
        "fails",
        "fails in fresh process 2",
        "fails in fresh process 3",
    }
    assert len(written.records) == 12
    assert "left" not in written.environment
    assert "a process lost its device; another one goes on" not in capsys.readouterr().out


def test_a_process_that_dies_is_named_and_loses_nothing(tmp_path, capsys):
    made, written = run(tmp_path, "passes", "dies", "exits", "passes more", count=1)
    assert made.why is None
    assert made.findings.left == 0
    failures = made.findings.failures()
    assert failures["dies"].startswith("the process was ended by SIGSEGV during this test")
    assert failures["exits"].startswith("the process ended with status 3 during this test")
    assert [r.outcome for r in written.records] == ["passed", "failed", "failed", "passed"]
    assert written.records[1].detail == "the process was ended by SIGSEGV during this test"
    assert written.records[1].check == "bits"
    assert "FAILED dies" in capsys.readouterr().out
    # What was blamed is in a journal as well, and is not tried again.
    known = Folder(tmp_path / "r.json.parts", {}).finished()
    assert {each.key for each in known} == made.findings.done


def test_a_process_that_lost_its_device_is_replaced(tmp_path, capsys):
    made, _ = run(tmp_path, "loses", "passes", count=1)
    assert made.findings.left == 0
    assert made.findings.failures() == {}
    assert "a process lost its device; another one goes on" in capsys.readouterr().out


def test_a_test_that_does_not_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "STUCK", 1.0)
    made, written = run(tmp_path, "hangs", "passes", count=1)
    assert made.findings.failures() == {"hangs": "the test had not ended after 1 s and was stopped"}
    assert [r.outcome for r in written.records] == ["failed", "passed"]


def test_processes_that_never_start_end_the_run(tmp_path, capsys):
    made, _ = run(tmp_path, "never starts", count=1)
    assert made.why == "a process ended with status 4"
    assert made.findings.left == 1
    assert "no such device" in capsys.readouterr().out


def test_the_time_is_kept_and_what_is_left_is_done_later(tmp_path):
    before = time.monotonic()
    names = ("passes", "hangs")
    made, written = run(tmp_path, *names, deadline=before + 3, rounds=2, count=1)
    assert time.monotonic() - before < 30
    assert made.why == "the time of --minutes is over"
    assert written.environment["left"] == f"{made.findings.left} of 4 tests were not run"
    assert len(written.records) == 1
    known = Folder(tmp_path / "r.json.parts", {}).finished()
    assert [each.key for each in known] == [(1, "passes")]
    left = [job.tests for job in plan.jobs(planned(*names), 2, 1, {each.key for each in known})]
    assert left == [("hangs",), ("passes", "hangs")]


def test_it_stops_after_as_many_failures_as_asked(tmp_path):
    made, _ = run(tmp_path, "fails", "fails 2", "hangs", count=1, limit=2)
    assert made.why == "2 failure(s), after which -x or --maxfail stops"
    assert made.findings.left == 1


def test_a_run_that_is_asked_to_end_writes_its_report(tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    timer = threading.Timer(3, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    made, written = run(tmp_path, "passes", "hangs")
    assert made.why == "it was interrupted"
    assert [r.outcome for r in written.records] == ["passed"]
    assert signal.getsignal(signal.SIGTERM) is handler


def chosen(*words, device):
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    options.add_to(parser)
    return options.asked(parser.parse_args(words), device)


def test_a_gpu_is_tried_in_rounds_and_a_cpu_where_that_is_asked(monkeypatch):
    monkeypatch.setattr(options, "_cores", lambda: 12)
    assert chosen(device="cuda") == options.Asked(6, 4, 8.0, 100)
    assert chosen("--repeats", "7", "--minutes", "2.5", device="cuda").repeats == 7
    assert chosen("--processes", "0", device="cuda") is None
    assert chosen(device="cpu") is None
    assert chosen("--rounds", "2", device="cpu") == options.Asked(6, 2, None, None)
    monkeypatch.setattr(options, "_cores", lambda: 1)
    assert chosen("--rounds", "2", device="cpu").processes == 1


def test_processes_share_the_device_and_no_programs(monkeypatch):
    for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(name, raising=False)
    settings = processes.Settings(("-k", "x"), 100, 3, 6)
    given = settings.environment()
    assert given["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.15"
    assert given["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert given["JAX_ENABLE_COMPILATION_CACHE"] == "false"
    assert given["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    given = settings.environment()
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in given
    assert given["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"
    first = settings.command(plan.Job(1, ("a",)), Path("f"))
    later = settings.command(plan.Job(2, ("a",)), Path("f"))
    assert {"--pressure", "--repeats=100", "--round=1", "-k", "x"} <= set(first)
    assert {"--repeats=3", "--round=2"} <= set(later)
    assert "--pressure" not in later


@pytest.fixture
def commanded(tmp_path, monkeypatch):
    """What runs tests of these names as the command does, with processes that stand in."""
    tried = implementation.load("impl")

    def command_(*names, minutes=None, arguments=()):
        collected = plan.Collector()
        collected.tests = planned(*names)
        monkeypatch.setattr(plan, "collect", lambda _: (0, "", collected))
        monkeypatch.setattr(command, "_settings", lambda *_: scripted(1))
        monkeypatch.setattr(command, "_MARGIN", 0.0)
        how = options.Asked(1, 2, minutes, None)
        path = tmp_path / "r.json"
        return command.run(tried, how, arguments, path, since=time.monotonic())

    return command_


def test_a_run_goes_on_where_it_stopped(commanded, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SAMEBITS_TEST_GO", str(tmp_path / "go"))
    assert commanded("passes", "waits", minutes=4 / 60) == options.UNFINISHED
    assert "are left; the same command goes on with them" in capsys.readouterr().out
    assert len(report.read(tmp_path / "r.json").records) == 1
    (tmp_path / "go").touch()
    assert commanded("passes", "waits", arguments=["-k", "x"]) == 2
    assert "arguments  then, -k x now. Remove the folder" in capsys.readouterr().err
    assert commanded("passes", "waits") == 0
    assert "going on: 1 tests were run before" in capsys.readouterr().out
    assert len(report.read(tmp_path / "r.json").records) == 4
    assert {file.name for file in tmp_path.iterdir()} == {"r.json", "go"}
    assert commanded("fails") == 1
    assert "____ fails ____\nwhy it fails\nE   in short\nand" in capsys.readouterr().out
    monkeypatch.setattr(command, "_IN_FULL", 0)
    assert commanded("fails") == 1
    assert "____ fails ____\nE   in short\n\n" in capsys.readouterr().out


def test_what_is_for_runs_on_a_cpu_is_refused(capsys):
    how = options.Asked(1, 2, None, None)
    for words in (["-n", "4"], ["-n4"]):
        assert command.run(implementation.load("impl"), how, words, None, since=0) == 2
        assert "--processes N" in capsys.readouterr().err


#: Keeps what a machine with a GPU need not have from being imported, in each process of a run.
WITHOUT = """
import sys

class Without:
    names = {"hypothesis", "jsonschema", "nox", "xdist", "torch", "cloudpickle"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"no module named {name!r}: it is kept away", name=name)

sys.meta_path.insert(0, Without())
"""


def test_a_run_in_rounds_in_earnest_finds_what_is_broken(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    there = os.environ.get("PYTHONPATH")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *([there] if there else [])]),
    }
    words = "sort-forward-cpu and floating and (bits or unlisted and 1.10)"
    path = tmp_path / "r.json"
    more = ["--processes", "1", "--rounds", "2", "--report", str(path), "-k", words]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "run", *more, "-p", "conformance.tests._injured"],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    ended = {(r.check, r.outcome, r.evidence) for r in report.read(path).records}
    again = "bits in fresh process 2"
    assert ended == {
        ("bits", "passed", "hardware"),
        (again, "failed", "hardware"),
        ("unlisted", "failed", None),
    }
    (died,) = (r for r in report.read(path).records if r.check == "unlisted")
    assert died.detail == "the process was ended by SIGKILL during this test"
    (beside,) = (r.detail for r in report.read(path).records if r.check == "bits")
    assert beside == "2 runs beside allocations and copies of changing sizes"
    for word in (died.detail, "alone: python -m conformance run", "rows by evidence"):
        assert word in said
    # It is complete: there is nothing to go on with.
    assert {file.name for file in tmp_path.iterdir()} == {"r.json", "sitecustomize.py"}
