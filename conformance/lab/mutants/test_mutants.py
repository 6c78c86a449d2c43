"""The tests find each mutant: its command fails, and fails because of a test.

``nox -s mutants`` runs this file alone. ``-k NAME`` chooses mutants, and ``-n N`` how many run at
once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.lab.mutants import trial
from conformance.lab.mutants.mutant import Mutant, read

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def new_copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Path]]:
    """A function that makes a copy of the checkout."""
    folder = tmp_path_factory.mktemp("mutants")
    trial.copied(_ROOT, folder / "first", ("spec", "impl", "conformance"))

    def copy() -> Path:
        shutil.rmtree(folder / "copy", ignore_errors=True)
        return Path(shutil.copytree(folder / "first", folder / "copy"))

    yield copy
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def seconds() -> dict[str, float]:
    """The seconds that each command took with nothing broken."""
    return {}


@pytest.mark.parametrize(
    "mutant",
    # One worker gets all mutants of a command, which it runs once with nothing broken.
    [pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(each.run)) for each in read()],
)
def test_mutant(mutant: Mutant, new_copy: Callable[[], Path], seconds: dict[str, float]) -> None:
    """The command of the mutant fails, and passes with nothing broken."""
    if mutant.run not in seconds:
        baseline = trial.run(mutant.run, new_copy(), trial.BASELINE_TIMEOUT)
        if baseline.status != 0:
            pytest.fail(f"{mutant.run} fails with nothing broken: {baseline}", pytrace=False)
        seconds[mutant.run] = baseline.seconds
    copy = new_copy()
    trial.apply(mutant, copy)
    limit = max(trial.MIN_TIMEOUT, trial.TIMEOUT_FACTOR * seconds[mutant.run])
    print("found by", trial.found(mutant, trial.run(mutant.run, copy, limit)))
