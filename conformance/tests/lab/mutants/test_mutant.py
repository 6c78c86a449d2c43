"""Mutants fit the checkout, and a malformed mutant is refused."""

import shlex
from pathlib import Path

import pytest

from conformance.lab.mutants.mutant import read
from conformance.tests.lab.mutants.examples import ENTRY, THING, toml
from conformance.tests.lab.mutants.examples import mutant as example_mutant

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[4]


def test_every_mutant_fits():
    mutants = read()
    assert len(mutants) >= 30
    problems = []
    for mutant in mutants:
        try:
            mutant.broken_text(ROOT)
        except ValueError as error:
            problems.append(str(error))
        words = shlex.split(mutant.run)
        files = [word.partition("::")[0] for word in words if "/" in word]
        problems += [
            f"{mutant.name}: no file {file}" for file in files if not (ROOT / file).exists()
        ]
        if len(words) == 1 and words != ["docs"]:
            problems.append(f"{mutant.name}: {mutant.run} is not narrow")
    assert problems == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"find": "number"}, "mutant a-b: thing.py has 'number' 2 times"),
        ({"find": "third"}, "mutant a-b: thing.py has 'third' 0 times"),
        ({"file": "nothing.py"}, "mutant a-b: there is no file nothing.py"),
        ({"replace": "("}, "mutant a-b: thing.py cannot be read once it is broken"),
        ({"file": "a.toml", "find": "1", "replace": "="}, "mutant a-b: a.toml cannot be read"),
        ({"file": "a.json", "find": "1", "replace": "="}, "mutant a-b: a.json cannot be read"),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(given, message, tmp_path):
    (tmp_path / "thing.py").write_text(THING)
    (tmp_path / "a.toml").write_text("a = 1")
    (tmp_path / "a.json").write_text("1")
    with pytest.raises(ValueError, match=message):
        example_mutant(**given).broken_text(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mutant", "m.toml: Expected"),
        ("mutants = 1", "m.toml: 'mutant'"),
        (toml({**ENTRY, "more": "x"}), "unexpected keyword argument 'more'"),
        (toml({**ENTRY, "why": " "}), "needs text in `why`"),
        (toml({**ENTRY, "replace": ENTRY["find"]}), "changes nothing"),
        (toml({**ENTRY, "name": "A_b"}), "in kebab case"),
        (toml({**ENTRY, "run": "rm -r"}), "has to begin with one of pytest"),
        (toml(ENTRY, ENTRY), "'a-b' needs a name of its own"),
    ],
)
def test_a_malformed_file_is_refused(text, message, tmp_path):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)
