"""The command: its verdicts tell a test that fails from a test that cannot run."""

import pytest

from conformance.lab.mutants import __main__ as command
from conformance.lab.mutants import verdicts as verdicts_
from conformance.tests.lab.mutants.examples import ENTRY, mutant

pytestmark = pytest.mark.once


def verdicts(output):
    """Returns the verdict on each mutant."""
    lines = output.partition(" mutants:")[2].partition("slowest:")[0].splitlines()
    words = [line.split() for line in lines if " s  " in line]
    return {name.removesuffix(":"): verdict for _, verdict, _, _, name, *_ in words}


def test_a_test_that_fails_is_told_from_one_that_cannot(project, capsys):
    entries = [
        {**ENTRY, "name": "found"},
        {**ENTRY, "name": "not-found", "run": "pytest test_thing.py -k nothing"},
        {**ENTRY, "name": "not-imported", "replace": "2\nimport no_such_module"},
        {**ENTRY, "name": "not-set-up", "find": "pass", "replace": "raise OSError"},
        # No test is selected, so no test can fail.
        {**ENTRY, "name": "not-run", "file": "test_thing.py", "find": "half()", "replace": "h()",
         "run": "pytest test_thing.py::test_half"},
    ]  # fmt: skip
    assert project(*entries) == 1
    output = capsys.readouterr().out
    assert verdicts(output) == {
        "found": "killed",
        "not-found": "survived",
        "not-imported": "broken",
        "not-set-up": "broken",
        "not-run": "broken",
    }
    assert "found: test_half" in output
    assert "1 of 5 mutants were found" in output
    for line in ("survived: not-found", *(f"broken: not-{w}" for w in ("imported", "run"))):
        assert f"\n{line}: b\n" in output
    assert "\nslowest:\n" in output


def test_a_command_that_fails_with_nothing_broken_finds_no_mutant(project, capsys):
    (project.root / "test_thing.py").write_text("def test_it():\n    assert 0\n")
    assert project(ENTRY) == 1
    output = capsys.readouterr().out
    assert " s  pytest test_thing.py: exit status 1" in output
    assert "1 of 1 commands fail with nothing broken" in output
    assert "killed" not in output


def test_a_mutant_that_hangs_is_found(project, capsys, monkeypatch):
    monkeypatch.setattr(verdicts_, "MIN_TIMEOUT", 1.0)
    monkeypatch.setattr(verdicts_, "TIMEOUT_FACTOR", 0.0)
    assert project({**ENTRY, "replace": "__import__('time').sleep(90)"}) == 0
    assert "a-b: it hangs" in capsys.readouterr().out


def test_a_mutant_that_ends_the_process_is_found(project, capsys):
    assert project({**ENTRY, "replace": "__import__('os').abort()"}) == 0
    assert "a-b: it ends by a signal" in capsys.readouterr().out


def test_words_select_mutants_by_name():
    mutants = [mutant(name=name) for name in ("found", "not-found", "broken")]
    assert command.select(mutants, None) == mutants
    assert command.select(mutants, ["und"]) == mutants[:2]
    assert command.select(mutants, ["not", "brok"]) == mutants[1:]
    with pytest.raises(ValueError, match="-k other: of 3 mutants none has that in its name"):
        command.select(mutants, ["found", "other"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "no-such-name"], "none has that in its name"),
        (["-n", "0"], "at least one at a time"),
    ],
)
def test_bad_options_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as error:
        command.main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err
