"""The command of a run in rounds: with stand-ins for workers, and once with real workers."""

import json
import os
import subprocess
import sys
from importlib.resources import files

import jsonschema
import pytest

from conformance.adapters import loading
from conformance.hardware import jobs, options, run_command
from conformance.reporting import report
from conformance.tests.hardware.examples import planned
from conformance.tests.hardware.scripted_worker import scripted_settings

SCHEMA = json.loads(
    (files("conformance.reporting") / "report_schema.json").read_text(encoding="utf-8")
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs tests with these names as the command does, in scripted workers."""
    monkeypatch.setattr(run_command, "_settings", lambda *_: scripted_settings(1))
    monkeypatch.setattr(run_command, "_MARGIN", 0.0)

    def run_(*names, minutes=None, arguments=()):
        collector = jobs.Collector()
        collector.tests = planned(*names)
        monkeypatch.setattr(jobs, "collect", lambda _: (0, "", collector))
        round_options = options.RoundOptions(1, 2, minutes, None)
        path, under_test = tmp_path / "r.json", loading.load("impl")
        return run_command.run(under_test, round_options, arguments, path, start_time=0.0)

    return run_


@pytest.mark.usefixtures("clock_that_jumps")
def test_a_run_continues_where_it_stopped(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SAMEBITS_TEST_GO", str(tmp_path / "go"))
    assert run("passes", "waits", minutes=1) == options.UNFINISHED
    assert "are left; the same command goes on with them" in capsys.readouterr().out
    assert len(report.read(tmp_path / "r.json").records) == 1
    (tmp_path / "go").touch()
    assert run("passes", "waits", arguments=["-k", "x"]) == 2
    assert "arguments  then, -k x now. Remove the folder" in capsys.readouterr().err
    assert run("passes", "waits") == 0
    output = capsys.readouterr().out
    assert "going on: 1 tests were run before" in output
    assert "\nslowest tests\n    0.5 s  passes\n" in output
    assert len(report.read(tmp_path / "r.json").records) == 4
    assert {file.name for file in tmp_path.iterdir()} == {"r.json", "go"}


def test_failures_are_printed_in_full_and_then_in_short(run, monkeypatch, capsys):
    assert run("fails") == 1
    assert "____ fails ____\nwhy it fails\nE   in short\nand" in capsys.readouterr().out
    monkeypatch.setattr(run_command, "_FULL_FAILURES", 0)
    assert run("fails") == 1
    assert "____ fails ____\nE   in short\n\n" in capsys.readouterr().out


def test_options_of_xdist_are_refused(capsys):
    round_options = options.RoundOptions(1, 2, None, None)
    under_test = loading.load("impl")
    for words in (["-n", "4"], ["-n4"]):
        assert run_command.run(under_test, round_options, words, None, start_time=0) == 2
        assert "--processes N" in capsys.readouterr().err


#: Hides, from each process of a run, the packages that a machine with a GPU need not have.
HIDE_PACKAGES = """
import sys

class Hidden:
    names = {"hypothesis", "jsonschema", "nox", "xdist", "torch", "cloudpickle"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"no module named {name!r}: it is hidden", name=name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.once
def test_a_run_with_real_workers_finds_other_bits_and_a_dead_process(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDE_PACKAGES)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    # One profile is collected faster than all.
    words = ["--profile", "complete", "-k", "sort-forward-cpu and floating and (bits or off)"]
    path = tmp_path / "r.json"
    arguments = ["--processes", "1", "--rounds", "2", "--report", str(path), *words]
    plugin = ["-p", "conformance.tests.hardware.faulty_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "run", *arguments, *plugin],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    records = report.read(path).records
    assert {(r.check, r.outcome, r.evidence) for r in records} == {
        ("bits", "passed", "hardware"),
        ("bits in fresh process 2", "failed", "hardware"),
        ("off", "failed", None),
    }
    (killed,) = (r for r in records if r.check == "off")
    assert killed.detail == "the process was ended by SIGKILL during this test"
    (detail,) = (r.detail for r in records if r.check == "bits")
    assert detail == "2 runs during allocations and copies of changing sizes"
    for word in (killed.detail, "alone: python -m conformance run", "rows by evidence"):
        assert word in output
    # The run is complete, so its folder is gone.
    kept = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert kept == {"r.json", "sitecustomize.py"}
