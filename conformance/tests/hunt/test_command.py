"""A planted fault is found, shrunk, and written as a file that runs alone.

Tests: conformance.hunt.command, conformance.hunt.files, conformance.hunt.memory,
conformance.hunt.workers.
"""

import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import __main__ as command
from conformance.hunt import checks, memory, workers
from conformance.hunt import command as command_of_hunt
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew
from conformance.hunt.settings import BASE, Setting
from conformance.hunt.workers import Kind, Worker
from conformance.tests.hunt.examples import chain

PLANTS = Path(__file__).parent / "plants"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minutes", "0"], "--minutes 0.0: it is a number above 0"),
        (["--plant", "/nowhere/x.py"], "--plant /nowhere/x.py: there is no such file"),
        (["--mutant", "nonsense"], "--mutant nonsense: no file"),
        (["--only", "nonsense"], "--only nonsense: no token contains it"),
        (["--python", "/nowhere/python"], "does not run"),
    ],
)
def test_a_hunt_that_cannot_run_has_its_own_status(arguments, message, capsys):
    assert command.main(["hunt", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.once
def test_a_planted_fault_becomes_a_file_that_runs_alone(tmp_path, capsys):
    report = tmp_path / "hunt.json"
    arguments = ["--only", "add_zeros", "--plant", str(PLANTS / "sums_not_sealed.py")]
    arguments += [
        "--minutes",
        "4",
        "--most",
        "1",
        "--shrink",
        "20",
        "--out",
        str(tmp_path),
        "--report",
        str(report),
    ]
    assert command.main(["hunt", *arguments]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"suspected: .*\b(add|sub)\b", printed), printed
    (file,) = tmp_path.glob("*.py")
    text = file.read_text()
    assert "impl/_portable/rules/rounding.py" in text or "sums_not_sealed.py" in text
    statuses = []
    for source in (
        text,
        text.replace("exec(open(", "(lambda *_: None)((").replace(").read())", "))"),
    ):
        file.write_text(source)
        done = subprocess.run(
            [sys.executable, str(file)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            check=False,
        )
        statuses.append(done.returncode)
    assert statuses == [1, 0]
    assert memory.read(report)["faults"]


@pytest.mark.parametrize(("shows", "status"), [(True, 1), (False, 0)])
def test_a_finding_must_show_once_more(tmp_path, monkeypatch, capsys, *, shows, status):
    finding = Finding("bits", chain(), Setting("vmap"), "results 0 have other bits")
    monkeypatch.setattr(Crew, "ready", lambda *_: {})
    monkeypatch.setattr(checks, "check", lambda *_: (finding, {}))
    monkeypatch.setattr(checks, "again", lambda _, each: each if shows else None)
    arguments = ["--minutes", "0.2", "--shrink", "0", "--most", "1", "--out", str(tmp_path)]
    report = tmp_path / "hunt.json"
    if not shows:
        arguments[1] = "0.005"
    assert command.main(["hunt", *arguments, "--report", str(report)]) == status
    printed = capsys.readouterr().out
    assert ("not shown again in 3 runs" in printed) is not shows
    assert len(memory.read(report)["faults"]) == status
    assert (tmp_path / f"{'' if shows else 'not_again_'}bits_0.py").is_file()
    assert (tmp_path / f"{'' if shows else 'not_again_'}bits_0.json").is_file()


def test_a_worker_that_crashes_or_hangs_is_replaced():
    worker = Worker(Kind(plain=True))
    request = {"source": "", "asks": [], "mode": "off", "wide": False}
    crash = {**request, "source": "import os\nos.abort()", "asks": ["digests"]}
    hang = {**request, "source": "import time\ntime.sleep(60)", "asks": ["digests"]}
    assert worker.ask(crash)["error"] == "crash"
    assert "error" not in worker.ask(request)
    assert worker.ask(hang, 0.5)["error"] == "hang"
    assert "no_name" in worker.ask({**crash, "source": "no_name"})["message"]
    names = [f"name_{i}" for i in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda name: worker.ask({**crash, "source": name}), names)
        assert all(name in each["message"] for name, each in zip(names, answers, strict=True))
    worker.close()


@pytest.mark.parametrize(("hangs", "kind"), [({0}, None), ({0, 1}, "hang")])
def test_a_hang_of_the_first_workers_options_is_no_finding(monkeypatch, hangs, kind):
    def run(_, program, setting, *, plain=False):
        del program
        return {"error": "hang"} if setting.worker in hangs and not plain else {"digests": []}

    monkeypatch.setattr(Crew, "run", run)
    crew = Crew((Kind(), Kind(flags="")))
    found = checks.of_error(crew, chain(), Setting(), {"error": "hang", "message": ""})
    assert (found and found.kind) == kind
    slow = Setting("integers", 1)
    assert checks.of_error(crew, chain(), slow, {"error": "hang", "message": ""}) is None


def test_half_of_the_settings_are_of_the_first_worker():
    for count, others in ((4, {1: 2, 2: 2, 3: 2}), (3, {1: 2, 2: 4}), (2, {1: 6})):
        drawn = [command_of_hunt._for_crew(Setting(worker=i), count).worker for i in range(12)]
        assert collections.Counter(drawn) == {0: 6, **others}


@pytest.mark.parametrize(("release", "has"), [("0.10.2", True), ("0.12.0.1", False)])
def test_only_jaxlib_0_10_has_the_option_about_emitters(monkeypatch, release, has):
    monkeypatch.setattr("importlib.metadata.version", {"jaxlib": release}.__getitem__)
    assert ("emitters" in workers.cheapest()) is has


def test_reports_of_hunts_add_up(tmp_path):
    path = tmp_path / "hunt.json"
    for _ in range(2):
        each = memory.Memory()
        each.add([("add", "float32"), ("mul", "float32")], [BASE])
        each.write(path)
    report = memory.read(path)
    assert report["programs"] == 2
    assert report["dtypes"] == {"add float32": 2, "mul float32": 2}
    assert report["calls"]["add jit"] == 2
    assert "| `add` | float32 | 0 | 1 | 2 |" in memory.markdown(report)
    path.write_text(json.dumps({"programs": 1}))
    with pytest.raises(ValueError, match="it is no report of a hunt, and lacks"):
        memory.read(path)
