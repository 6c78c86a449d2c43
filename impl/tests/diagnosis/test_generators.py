"""The watch over generators of NumPy and of Python: who has no seed, at which line."""

import importlib
import pickle
import random
import tempfile
import threading

import numpy as np
import pytest

import impl
from impl.diagnosis import _generators
from impl.diagnosis._generators import Global

# The global generator of NumPy is watched. A lambda gives a call a line in this file.
# ruff: noqa: NPY002, PLW0108


@pytest.fixture(autouse=True)
def kept():
    state = random.getstate()
    yield
    random.setstate(state)


def made(make):
    with _generators.watched() as watch:
        make()
    return [(found.kind, found.line.rpartition(":")[0], n) for found, n in watch.made.items()]


HERE = "impl/tests/diagnosis/test_generators.py"


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: np.random.default_rng(), "numpy.random"),
        (lambda: np.random.default_rng(None), "numpy.random"),
        (lambda: np.random.Generator(np.random.Philox()), "numpy.random"),
        (lambda: np.random.RandomState(), "numpy.random"),
        (lambda: random.Random(), "random"),
        (lambda: random.Random(3).seed(), "random"),
    ],
)
def test_a_generator_without_a_seed_is_found_with_its_line(make, kind):
    assert made(make) == [(kind, HERE, 1)]


def test_generators_with_a_seed_and_those_of_libraries_for_names_are_not():
    before = np.random.RandomState

    def make():
        np.random.default_rng(3)
        np.random.default_rng(np.random.SeedSequence(4))
        assert isinstance(np.random.RandomState(5), before)
        assert isinstance(np.random.mtrand._rand, np.random.RandomState)
        random.Random(6)
        random.SystemRandom().random()
        tempfile._RandomNameSequence().rng.random()

    assert made(make) == []


def test_a_global_generator_counts_by_its_first_draw():
    with _generators.watched() as watch:
        random.shuffle([1, 2])
        np.random.rand(3)
        impl.seed_everything(3)
        first = {name: state.unseeded_use for name, state in watch.states.items()}
    assert all(line.startswith(HERE) for line in first.values())
    with _generators.watched() as watch:
        impl.seed_everything(3)
        random.random()
        np.random.normal()
        random.seed()
    assert watch.states["numpy.random"] == Global(seeded=True)
    assert watch.states["random"] == Global(seeded=False, changed=True)


def test_a_draw_by_a_function_that_was_imported_before_is_found():
    shuffle = random.shuffle
    with _generators.watched() as watch:
        shuffle([1, 2, 3])
        state = np.random.get_state()
        np.random.set_state(state)
    assert watch.states == {"random": Global(changed=True), "numpy.random": Global(seeded=True)}


def test_other_threads_are_watched_and_nothing_stays():
    before = random.random, np.random.rand, random.Random.seed, np.random.bit_generator.randbits
    with _generators.watched() as watch:
        thread = threading.Thread(target=np.random.default_rng)
        thread.start()
        thread.join()
        thread = threading.Thread(target=lambda: np.random.default_rng())
        thread.start()
        thread.join()
        assert pickle.loads(pickle.dumps(random.random)) is random.random
    # All lines of the first thread are Python's own, so it made no entry.
    assert len(watch.made) == 1
    assert before == (
        random.random,
        np.random.rand,
        random.Random.seed,
        np.random.bit_generator.randbits,
    )


def test_draws_of_a_library_while_it_is_imported_do_not_count(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "library_of_names.py").write_text(
        "import random, numpy\nrandom.random(); numpy.random.default_rng()\n"
        "def draw(): return random.random()\n"
    )
    monkeypatch.syspath_prepend(folder)
    with _generators.watched() as watch:
        library = importlib.import_module("library_of_names")
    assert (watch.made, watch.states["random"]) == ({}, Global())
    with _generators.watched() as watch:
        library.draw()
    assert watch.states["random"].unseeded_use.startswith(HERE)
