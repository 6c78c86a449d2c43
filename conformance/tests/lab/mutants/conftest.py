"""A small checkout in which mutants run."""

import shutil
import subprocess
import tempfile

import pytest

from conformance.lab.mutants import __main__ as command
from conformance.tests.lab.mutants.examples import TEST, THING, toml


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout of one file and its tests: a function that runs mutants of it."""
    if shutil.which("git") is None:
        pytest.skip("mutants need git")
    root, folder, temporary = (tmp_path / name for name in ("root", "mutants", "temporary"))
    for path in (root, folder, temporary):
        path.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("*.log")
    (root / "thing.py").write_text(THING)
    (root / "test_thing.py").write_text(TEST)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*entries):
        (folder / "m.toml").write_text(toml(*entries))
        try:
            return command.main(["-n2"], root=root, folder=folder, packages=["thing"])
        finally:
            assert (root / "thing.py").read_text() == THING
            assert list(temporary.iterdir()) == []

    run.root = root
    return run
