"""A planted fault is found, shrunk, and written as a file that runs alone.

Tests: conformance.hunt.command, conformance.hunt.files, conformance.hunt.memory,
conformance.hunt.workers.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import __main__ as command
from conformance.hunt import memory
from conformance.hunt.settings import BASE
from conformance.hunt.workers import Kind, Worker

PLANTS = Path(__file__).parent / "plants"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minutes", "0"], "--minutes 0.0: it is a number above 0"),
        (["--plant", "/nowhere/x.py"], "--plant /nowhere/x.py: there is no such file"),
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


def test_a_worker_that_crashes_or_hangs_is_replaced():
    worker = Worker(Kind(plain=True))
    request = {"source": "", "asks": [], "mode": "off", "wide": False}
    crash = {**request, "source": "import os\nos.abort()", "asks": ["digests"]}
    hang = {**request, "source": "import time\ntime.sleep(60)", "asks": ["digests"]}
    assert worker.ask(crash)["error"] == "crash"
    assert "error" not in worker.ask(request)
    assert worker.ask(hang, 0.5)["error"] == "hang"
    assert "no_name" in worker.ask({**crash, "source": "no_name"})["message"]
    worker.close()


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
