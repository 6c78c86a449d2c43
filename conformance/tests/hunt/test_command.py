"""A planted fault is found, and written as a file that runs alone.

Tests: conformance.hunt.command, conformance.hunt.crew, conformance.hunt.files,
conformance.hunt.memory.
"""

import concurrent.futures
import dataclasses
import json
import runpy
from pathlib import Path

import pytest

from conformance import __main__ as command
from conformance.hunt import checks, crew, files, memory, prelude
from conformance.hunt import command as command_of_hunt
from conformance.hunt.checks import Finding
from conformance.hunt.crew import ROOT, Crew, Kind, Worker, default_kinds
from conformance.hunt.settings import BASE, Setting
from conformance.tests.hunt.examples import chain, drawn
from impl.tests.support import processes

#: A product has other bits in a process of one thread, which the second worker is.
_PLANT = """
import dataclasses, os
from jax import lax
from impl._portable.rules import RULES

def multiply(a, b, **_):
    return lax.mul(a, b) * (3 if os.environ["NPROC"] == "1" else 1)

RULES["mul"] = dataclasses.replace(RULES["mul"], compute=multiply)
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minutes", "0"], "--minutes 0.0: it is a number above 0"),
        (["--plant", "/nowhere/x.py"], "--plant /nowhere/x.py: there is no such file"),
        (["--only", "nonsense"], "--only nonsense: no token contains it"),
    ],
)
def test_a_hunt_that_cannot_run_has_its_own_status(arguments, message, capsys):
    assert command.main(["hunt", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.once
def test_a_planted_fault_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRIMITIVE", "exp")
    monkeypatch.setattr(command_of_hunt, "_LANES", 1)
    plant, report = Path(__file__).parent / "xlas_own.py", tmp_path / "hunt.json"
    arguments = ["--only", "exp", "--plant", str(plant), "--shrink", "1", "--most", "1"]
    arguments += ["--minutes", "4", "--out", str(tmp_path), "--report", str(report)]
    assert command.main(["hunt", *arguments]) == 1
    assert "exponential" in capsys.readouterr().out
    assert len([*tmp_path.glob("*_0.py")]) == 1
    assert memory.read(report)["faults"]


@pytest.mark.once
def test_a_file_shows_its_fault_until_it_is_mended(tmp_path):
    (plant := tmp_path / "plant.py").write_text(_PLANT)
    finding = Finding("bits", chain(), Setting(worker=1), "results 1 have other bits")
    (file := tmp_path / "bits.py").write_text(files.text(finding, default_kinds([], plant)))
    done = processes.run(file, PYTHONPATH=str(ROOT))
    assert done.returncode == 1, done.stderr
    assert done.stdout == "results 1 have other bits\n"
    mended = runpy.run_path(str(file))
    assert files.again(mended["FINDING"], "") == 0
    first, second = (prelude.called(*mended[name]()) for name in ("first", "second"))
    assert [*map(prelude.digest, first)] == [*map(prelude.digest, second)]


def test_a_file_has_its_finding_as_a_value_and_the_rules_of_its_primitives():
    finding = Finding("value", chain(), Setting("scan"), 'it is """ 3', "sum")
    text = files.text(finding, default_kinds([]))
    space = {"__name__": "finding"}
    exec(text, space)
    assert space["FINDING"] == finding
    assert "add: rounded in impl/_portable/rules/rounding.py" in text


@pytest.mark.parametrize(("shows", "status"), [(True, 1), (False, 0)])
def test_a_finding_must_show_once_more(tmp_path, monkeypatch, capsys, *, shows, status):
    finding = Finding("bits", chain(), Setting("vmap"), "results 0 have other bits")
    monkeypatch.setattr(Crew, "start", lambda _: None)
    monkeypatch.setattr(checks, "check", lambda *_: (finding, {}))
    monkeypatch.setattr(checks, "again", lambda _, each: each if shows else None)
    minutes = "0.2" if shows else "0.005"
    arguments = ["--minutes", minutes, "--shrink", "0", "--most", "1", "--out", str(tmp_path)]
    report = tmp_path / "hunt.json"
    assert command.main(["hunt", *arguments, "--report", str(report)]) == status
    assert ("not shown again in 3 runs" in capsys.readouterr().out) is not shows
    assert len(memory.read(report)["faults"]) == status
    assert (tmp_path / f"{'' if shows else 'not_again_'}bits_0.py").is_file()


def test_a_worker_that_crashes_or_hangs_is_replaced():
    worker = Worker(Kind(plain=True))
    request = {"source": "", "asks": [], "mode": "off", "wide": False}
    crash = {**request, "source": "import os\nos.abort()", "asks": ["digests"]}
    hang = {**request, "source": "import time\ntime.sleep(60)", "asks": ["digests"]}
    assert worker.ask(crash)["error"] == "crash"
    assert "error" not in worker.ask(request)
    assert worker.ask(hang, 0.5)["error"] == "hang"
    names = [f"name_{i}" for i in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda name: worker.ask({**crash, "source": name}), names)
        assert all(name in each["message"] for name, each in zip(names, answers, strict=True))
    worker.close()
    with pytest.raises(ValueError, match="does not run"):
        Crew([Kind(python="/nowhere/python")]).start()


@pytest.mark.parametrize(("release", "has"), [("0.10.2", True), ("0.12.0.1", False)])
def test_only_jaxlib_0_10_has_the_option_about_emitters(monkeypatch, release, has):
    monkeypatch.setattr("importlib.metadata.version", {"jaxlib": release}.__getitem__)
    assert ("emitters" in crew.cheapest()) is has


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


def test_known_faults_are_recognised_by_all_of_their_fields():
    message = "Check failed: get_first_valid_element_offset_on_dilated_shard(0) == low (1 vs. -1)"
    setting = Setting(partition="jit", mesh=(2,))
    finding = Finding("crash", drawn(1, 1, only="pad")[0], setting, message)
    (fault,) = [each for each in memory.known_faults() if "pad" in each.primitives]
    assert fault.matches(finding)
    for changes in ({"kind": "bits"}, {"setting": BASE}, {"detail": "Check failed: of another"}):
        assert not fault.matches(dataclasses.replace(finding, **changes))
