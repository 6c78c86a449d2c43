"""A trial tells a test that fails from one that cannot run, and leaves nothing behind."""

import os
import py_compile
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conformance.lab.mutants import test_mutants, trial
from conformance.lab.mutants.mutant import COMMANDS
from conformance.tests.lab.mutants.examples import TEST, THING, mutant

pytestmark = pytest.mark.once

SLEEPS = "__import__('time').sleep(90)"


@pytest.fixture
def project(tmp_path):
    """A checkout of one file and its tests."""
    if shutil.which("git") is None:
        pytest.skip("mutants need git")
    root = tmp_path / "root"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("*.log")
    (root / "an.log").write_text("ignored")
    (root / "thing.py").write_text(THING)
    (root / "test_thing.py").write_text(TEST)
    return root


def tried(root, monkeypatch, *, seconds=90.0, **given):
    """Returns how the tests of the project find a mutant."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    trial.apply(mutant(**given), root)
    return trial.found(mutant(**given), trial.run(mutant(**given).run, root, seconds))


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ({}, "test_half"),
        ({"replace": "__import__('os').abort()"}, "it ends by a signal"),
        ({"replace": SLEEPS, "seconds": 3.0}, "it hangs"),
    ],
)
def test_a_mutant_is_found(given, how, project, monkeypatch):
    assert tried(project, monkeypatch, **given) == how


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"run": "pytest test_thing.py -k nothing"}, "survived: b"),
        ({"replace": "2\nimport no_such_module"}, "broken"),
        ({"find": "pass", "replace": "raise OSError"}, "broken"),
        # No test is selected, so no test can fail.
        ({"file": "test_thing.py", "find": "half()", "replace": "h()",
          "run": "pytest test_thing.py::test_half"}, "broken"),
    ],
)  # fmt: skip
def test_a_mutant_is_not_found(given, verdict, project, monkeypatch):
    with pytest.raises(AssertionError, match=f"^{verdict}"):
        tried(project, monkeypatch, **given)


def test_a_command_that_passes_with_nothing_broken_finds_a_mutant(project, tmp_path, capsys):
    copies = iter("ab")
    test_mutants.test_mutant(
        mutant(), lambda: shutil.copytree(project, tmp_path / next(copies)), {}
    )
    assert capsys.readouterr().out == "found by test_half\n"
    assert (project / "thing.py").read_text() == THING


def test_a_command_that_fails_with_nothing_broken_finds_no_mutant(project):
    (project / "test_thing.py").write_text("def test_it():\n    assert 0\n")
    message = "pytest test_thing.py fails with nothing broken: exit status 1"
    with pytest.raises(pytest.fail.Exception, match=message):
        test_mutants.test_mutant(mutant(), lambda: project, {})


def test_an_interrupted_trial_leaves_no_process(project, monkeypatch):
    started = []

    class Interrupted(subprocess.Popen):
        def communicate(self, *args, **kwargs):
            started.append(self)
            if len(started) == 1:
                raise KeyboardInterrupt
            return super().communicate(*args, **kwargs)

    names = ("PIPE", "STDOUT", "TimeoutExpired")
    fake = {name: getattr(subprocess, name) for name in names}
    monkeypatch.setattr(trial, "subprocess", SimpleNamespace(Popen=Interrupted, **fake))
    with pytest.raises(KeyboardInterrupt):
        tried(project, monkeypatch, replace=SLEEPS)
    assert started[0].returncode < 0


def test_compiled_code_of_the_unbroken_file_is_not_used(project):
    path = project / "thing.py"
    py_compile.compile(str(path))
    before = path.stat()
    trial.apply(mutant(), project)
    # The file looks as if it changed within the same second.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    command = [sys.executable, "-c", "import thing; print(thing.half(4))"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == "8\n"


def test_tracked_files_are_copied_and_imported(project, tmp_path):
    copy = tmp_path / "copy"
    trial.copied(project, copy, ["thing"])
    names = {path.name for path in copy.iterdir() if path.is_file()}
    assert names == {".gitignore", "test_thing.py", "thing.py"}
    with pytest.raises(ValueError, match="is not what Python imports"):
        trial.copied(project, copy, ["json"])
    with pytest.raises(ValueError, match="need a checkout"):
        trial.copied(tmp_path, copy, [])


def test_every_command_has_processes():
    first = {name: trial.steps(f"{name} x")[0] for name in COMMANDS}
    assert first.pop("native")[0] == "cmake"
    assert trial.steps("native x")[-1] == first.pop("devices")[2:] == first["pytest"]
    assert {command[2] for command in first.values()} == {"pytest", "conformance", "sphinx"}
