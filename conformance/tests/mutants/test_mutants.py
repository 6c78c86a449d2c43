"""The mutants fit the checkout, and a test that fails is told from one that cannot."""

import json
import os
import py_compile
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conformance import mutants
from conformance.mutants import Mutant, __main__, read, running

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
THING = """
def half(number):
    return number / 2


def begin():
    pass
"""
TEST = """
import pytest
import thing


@pytest.fixture
def begun():
    thing.begin()


def test_begun(begun):
    pass


def test_half():
    assert thing.half(4) == 2


def test_nothing():
    pass
"""
HALF = {"file": "thing.py", "find": "number / 2", "run": "pytest test_thing.py"}


def test_every_mutant_fits():
    every = read()
    assert len(every) >= 30
    wrong = []
    for mutant in every:
        try:
            mutant.broken(ROOT)
        except ValueError as error:
            wrong.append(str(error))
        words = shlex.split(mutant.run)
        files = [word.partition("::")[0] for word in words if ".py" in word]
        wrong += [f"{mutant.name}: no file {each}" for each in files if not (ROOT / each).is_file()]
        if len(words) == 1 and words != ["docs"]:
            wrong.append(f"{mutant.name}: {mutant.run} is not narrow")
    assert wrong == []


def mutant(**given):
    return Mutant(**{"name": "a", "why": "b", "replace": "number", **HALF, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"find": "number"}, "mutant a: thing.py has 'number' 2 times"),
        ({"find": "third"}, "mutant a: thing.py has 'third' 0 times"),
        ({"file": "nothing.py"}, "mutant a: there is no file nothing.py"),
        ({"replace": "("}, "mutant a: thing.py cannot be read once it is broken"),
        ({"file": "a.toml", "find": "1", "replace": "="}, "mutant a: a.toml cannot be read"),
        ({"file": "a.json", "find": "1", "replace": "="}, "mutant a: a.json cannot be read"),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(given, message, tmp_path):
    (tmp_path / "thing.py").write_text(THING)
    (tmp_path / "a.toml").write_text("a = 1")
    (tmp_path / "a.json").write_text("1")
    with pytest.raises(ValueError, match=message):
        mutant(**given).broken(tmp_path)


ENTRY = {"name": "a-b", "why": "b", "replace": "number * 2", **HALF}


def toml(*entries):
    return "\n".join(
        "[[mutant]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items())
        for entry in entries
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no mutants"),
        ("[mutant", "m.toml: "),
        ("mutants = 1", "unknown .'mutants'."),
        (toml({**ENTRY, "more": "x"}), "it needs .'name', 'why'"),
        (toml({**ENTRY, "why": " "}), "needs text in .'why'."),
        (toml({**ENTRY, "replace": 1}), "needs text in .'replace'."),
        (toml({**ENTRY, "name": "A_b"}), "in kebab case"),
        (toml({**ENTRY, "replace": ENTRY["find"]}), "changes nothing"),
        (toml({**ENTRY, "run": "rm -r"}), "has to begin with one of pytest"),
        (toml(ENTRY, ENTRY), "two mutants have the name a-b"),
    ],
)
def test_a_malformed_file_is_refused(text, message, tmp_path):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout of one file and its tests; mutants of it are tried by what this returns."""
    if shutil.which("git") is None:
        pytest.skip("mutants need git")
    root, folder, left = (tmp_path / name for name in ("root", "mutants", "left"))
    for each in (root, folder, left):
        each.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("*.log")
    (root / "thing.py").write_text(THING)
    (root / "test_thing.py").write_text(TEST)
    monkeypatch.setattr(tempfile, "tempdir", str(left))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*entries, arguments=()):
        (folder / "m.toml").write_text(toml(*entries))
        try:
            return __main__.main(["-n2", *arguments], root=root, folder=folder, packages=["thing"])
        finally:
            assert (root / "thing.py").read_text() == THING
            assert list(left.iterdir()) == []

    run.root = root
    return run


def lines(text):
    """What was said of each mutant, without the seconds."""
    said = [line.split() for line in text.partition(" mutants:")[2].splitlines() if " s  " in line]
    return {words[3]: words[0] for words in said}


def test_a_test_that_fails_is_told_from_one_that_cannot(project, capsys):
    entries = [
        {**ENTRY, "name": "found"},
        {**ENTRY, "name": "not-found", "run": "pytest test_thing.py -k nothing"},
        {**ENTRY, "name": "not-imported", "replace": "2\nimport no_such_module"},
        {**ENTRY, "name": "not-set-up", "find": "pass", "replace": "raise OSError"},
        # Nothing is left to be run, so that nothing can fail.
        {**ENTRY, "name": "not-run", "file": "test_thing.py", "find": "half()", "replace": "h()",
         "run": "pytest test_thing.py::test_half"},
    ]  # fmt: skip
    assert project(*entries) == 1
    said = capsys.readouterr().out
    assert lines(said) == {
        "found:": "killed",
        "not-found:": "survived",
        "not-imported:": "broken",
        "not-set-up:": "broken",
        "not-run:": "broken",
    }
    assert "found: test_half" in said
    assert "1 of 5 mutants were found" in said
    for wrong in ("survived: not-found", *(f"broken: not-{w}" for w in ("imported", "run"))):
        assert f"\n{wrong}: b\n" in said
    assert project(*entries, arguments=["-k", "und"]) == 1
    assert project(entries[0], arguments=["-k", "und"]) == 0


def test_what_fails_with_nothing_broken_finds_nothing(project, capsys):
    (project.root / "test_thing.py").write_text("def test_it():\n    assert 0\n")
    assert project(ENTRY) == 1
    said = capsys.readouterr().out
    assert " s  pytest test_thing.py: exit status 1" in said
    assert "1 of 1 commands fail with nothing broken" in said
    assert "killed" not in said


def test_what_hangs_is_found(project, capsys, monkeypatch):
    monkeypatch.setattr(running, "LEAST", 3.0)
    monkeypatch.setattr(running, "TIMES", 0.0)
    assert project({**ENTRY, "replace": "__import__('time').sleep(90)"}) == 0
    assert "a-b: it hangs" in capsys.readouterr().out


def test_what_was_compiled_before_is_not_used(tmp_path):
    path = tmp_path / "thing.py"
    path.write_text(THING)
    py_compile.compile(str(path))
    made = path.stat()
    running._apply(mutant(replace="number * 2"), tmp_path)
    # As if it had been made within the same second.
    os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))
    command = [sys.executable, "-c", "import thing; print(thing.half(4))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "8\n"


def test_an_interrupted_run_leaves_nothing(project):
    left = Path(tempfile.gettempdir())
    copies = running.Copies(project.root, running.tracked(project.root))
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), copies:  # noqa: PT012  # as Ctrl-C would come
        waiting = copies.submit(HALF["run"], 90.0, mutant(replace="__import__('time').sleep(90)"))
        while not copies._running:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert waiting.done()
    assert threading.active_count() == before
    assert list(left.iterdir()) == []


def test_what_is_copied_and_what_is_imported(project):
    (project.root / "an.log").write_text("ignored")
    assert sorted(running.tracked(project.root)) == [".gitignore", "test_thing.py", "thing.py"]
    with running.Copies(project.root, ["thing.py"]) as copies:
        copies.check(["thing"])
        with pytest.raises(ValueError, match="is not what Python imports"):
            copies.check(["json"])
    with pytest.raises(ValueError, match="need a checkout"):
        running.tracked(project.root.parent)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "no-such-name"], "none has that in its name"),
        (["-n", "0"], "at least one at a time"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as refused:
        __main__.main(arguments)
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_commands_are_those_that_can_be_run():
    assert {running.steps(f"{name} x")[0][2] for name in mutants.COMMANDS} == {
        "pytest", "conformance", "sphinx",
    }  # fmt: skip
