"""Commands run in copies of the checkout, and leave nothing behind."""

import os
import py_compile
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conformance.lab.mutants import copies
from conformance.lab.mutants.mutant import COMMANDS
from conformance.tests.lab.mutants.examples import HALF, THING, mutant

pytestmark = pytest.mark.once


def test_compiled_code_of_the_unbroken_file_is_not_used(tmp_path):
    path = tmp_path / "thing.py"
    path.write_text(THING)
    py_compile.compile(str(path))
    before = path.stat()
    copies._apply(mutant(replace="number * 2"), tmp_path)
    # The file looks as if it changed within the same second.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    command = [sys.executable, "-c", "import thing; print(thing.half(4))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "8\n"


def test_an_interrupted_run_leaves_nothing(project):
    temporary = Path(tempfile.gettempdir())
    checkout = copies.CheckoutCopies(project.root, copies.tracked_files(project.root))
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt), checkout:  # noqa: PT012  # Ctrl-C comes like this
        future = checkout.submit(HALF["run"], 90.0, mutant(replace="__import__('time').sleep(90)"))
        while not checkout._running:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert future.done()
    assert threading.active_count() == threads
    assert list(temporary.iterdir()) == []


def test_tracked_files_are_copied_and_imported(project):
    (project.root / "an.log").write_text("ignored")
    assert sorted(copies.tracked_files(project.root)) == [".gitignore", "test_thing.py", "thing.py"]
    with copies.CheckoutCopies(project.root, ["thing.py"]) as checkout:
        checkout.check_imports(["thing"])
        with pytest.raises(ValueError, match="is not what Python imports"):
            checkout.check_imports(["json"])
    with pytest.raises(ValueError, match="need a checkout"):
        copies.tracked_files(project.root.parent)


def test_every_command_has_processes():
    first = {name: copies.steps(f"{name} x")[0] for name in COMMANDS}
    assert first.pop("native")[0] == "cmake"
    assert copies.steps("native x")[-1] == first.pop("devices")[2:] == first["pytest"]
    assert {command[2] for command in first.values()} == {"pytest", "conformance", "sphinx"}
