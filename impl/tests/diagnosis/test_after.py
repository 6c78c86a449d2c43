"""The programs that are compiled, the verdicts on them, and the items about a file that ran.

The watch over generators of NumPy and of Python: who has no seed, at which line.

Tests: impl._jax.watching, impl.diagnosis._generators.
"""

# The global generator of NumPy is watched. A lambda gives a call a line in this file.
# ruff: noqa: NPY002, PLW0108

import importlib
import pickle
import random
import sys
import tempfile
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import programs
from impl.diagnosis import _after, _generators, _program
from impl.diagnosis._generators import Global, Watch
from impl.tests.diagnosis.test_program import FIXED, PROCESS, UNKNOWN

HEAD = """
import time
import jax, jax.numpy as jnp, numpy as np
import impl
impl.use_deterministic_algorithms(True, profile="complete"); impl.seed_everything(0)
"""
#: The program of the issue. Its scatter is in line 9.
PROGRAM = f"""{HEAD}rng = np.random.default_rng()
key = jax.random.key(time.time_ns() % 1000)
x = rng.normal(size=9) + jax.random.normal(key, (9,))
jax.jit(lambda x, i: jnp.zeros(4).at[i].add(x))(x, jnp.zeros(9, int))
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return Path("train.py")


@pytest.fixture
def ran(file):
    def run(text, device="cuda"):
        file.write_text(text)
        return _after.ran(file, [], device)

    return run


@pytest.fixture
def attempt(file):
    def run(text, *arguments):
        file.write_text(text)
        return _after.attempt(file, arguments)

    return run


HERE = "impl/tests/diagnosis/test_after.py"


def verdicts(run):
    return {item.name: item.verdict for item in run.items()}


def test_a_generator_without_a_seed_is_named_and_an_ordered_scatter_is_not(ran):
    run = ran(PROGRAM)
    assert verdicts(run) == {
        "all equations": FIXED,
        "train.py:6  a generator of NumPy": PROCESS,
        "other generators": FIXED,
    }
    made = next(item for item in run.items() if item.varies)
    assert made.value == "no seed: rng = np.random.default_rng()"
    rest = next(run.items())
    assert "1 keeps a fixed order because the mode is on" in rest.reason
    assert "Other arguments, branches, devices and processes may compile more" in rest.reason


def test_a_scatter_that_is_compiled_with_the_mode_off_is_named(ran):
    off = PROGRAM.replace("jax.jit(", "with impl.deterministic(False): jax.jit(")
    found = verdicts(ran(off))
    assert found["train.py:9  lax.scatter_add"] == PROCESS
    assert found["compiled with the mode off"] == PROCESS
    assert found["all other equations"] == FIXED
    item = next(ran(off).items())
    assert "It was compiled with the mode off" in item.reason
    assert item.remedy.startswith("Turn the mode on")
    found = verdicts(ran(off, "cpu"))
    assert "train.py:9  lax.scatter_add" not in found
    assert found["compiled with the mode off"] == FIXED


def test_a_failure_is_an_item_beside_what_was_seen_before_it(ran, capsys):
    run = ran(f"{PROGRAM}raise SystemExit(3)\n")
    (failed,) = [item for item in run.items() if item.name == "train.py"]
    assert (failed.verdict, failed.value) == (UNKNOWN, "ended with the exit status 3")
    assert failed.remedy is not None
    assert "all equations" in verdicts(run)
    assert capsys.readouterr().err == ""


def test_a_program_that_compiles_nothing_is_not_said_to_be_fixed(ran):
    item = next(ran("x = 1\n").items())
    assert (item.name, item.value, item.verdict, item.remedy) == ("programs", "none", UNKNOWN, None)


@pytest.mark.parametrize(
    ("state", "verdict", "words"),
    [
        (Global(), FIXED, "drew nothing"),
        (Global(changed=True), PROCESS, "drew from it, and did not seed it"),
        (Global(seeded=True), FIXED, "seeded it before it drew"),
        (Global(seeded=True, unseeded_use="a.py:3"), PROCESS, "a.py:3 draws from it"),
    ],
)
def test_verdicts_of_global_generators_that_were_watched(state, verdict, words, monkeypatch):
    monkeypatch.setattr("impl.random._libraries_seed", None)
    watch = Watch()
    watch.states["random"] = state
    (item,) = [item for item in _program.seeds(watch) if item.name == "random"]
    assert item.verdict == verdict
    assert words in item.reason


X, INDEX = np.ones(9, np.float32), np.zeros(9, np.int32)


def add(x, i):
    return jnp.zeros(4).at[i].add(x)


def recorded(run):
    recorder = _after.Recorder()
    with recorder.watched():
        run()
    return recorder.programs


def by_primitive(judged):
    return {(f.primitive, f.verdict): f.source.rpartition(":")[0] for f, _ in judged.findings}


def test_a_scatter_counts_by_the_mode_that_its_program_was_compiled_with():
    impl.use_deterministic_algorithms(True, profile="complete")

    def run():
        jax.jit(add)(X, INDEX)
        with impl.deterministic(False):
            jax.jit(add)(X, INDEX)

    on, off = recorded(run)
    assert (on.mode.enabled, off.mode.enabled) == (True, False)
    judged = _after.judged([on], "cuda")
    assert by_primitive(judged) == {("lax.scatter_add", "deterministic"): HERE}
    assert (judged.off, judged.off_varies) == ({}, False)
    judged = _after.judged([on, off], "cuda")
    assert ("lax.scatter_add", "varies") in by_primitive(judged)
    assert (list(judged.off), judged.off_varies) == ([f"add ({off.caller.user})"], True)
    assert (judged.functions, judged.operations) == (2, 0)
    assert not _after.judged([on, off], "cpu").findings


def test_a_program_whose_primitives_are_left_to_jax_counts_as_off():
    impl.use_deterministic_algorithms(True, profile="complete")

    def both(x, i):
        return add(x, i) + impl.index_add(jnp.zeros(4), 0, i, x)

    programs.disable()
    try:
        (program,) = recorded(lambda: jax.jit(both)(X, INDEX))
    finally:
        programs.enable()
    # A function of impl that races there raises.
    assert set(by_primitive(_after.judged([program], "cuda"))) == {
        ("lax.scatter_add", "varies"),
        ("index_add", "raises"),
    }


def test_operations_outside_of_jit_have_the_line_that_calls_them():
    def run():
        jnp.zeros((5, 7)).at[jnp.asarray(INDEX)].add(2.5)

    judged = _after.judged(recorded(run), "cuda")
    assert judged.functions == 0
    assert judged.operations > 0
    assert by_primitive(judged) == {("lax.scatter_add", "varies"): HERE}
    assert list(judged.off) == [""]
    # The user compiles no function that an operation calls.
    applied = recorded(lambda: jnp.zeros((5, 7)).at[jnp.asarray(INDEX)].apply(lambda x: x + 1))
    assert _after.judged(applied, "cuda").functions == 0


def test_programs_of_threads_of_pmap_of_shard_map_and_ahead_of_time_are_recorded():
    mesh = jax.make_mesh((1,), ("d",))
    parts = jax.sharding.PartitionSpec()

    def run():
        thread = threading.Thread(target=lambda: jax.jit(lambda x: x * 3)(X))
        thread.start()
        thread.join()
        jax.pmap(lambda x: x * 4)(X[None])
        jax.jit(jax.shard_map(lambda x: x * 5, mesh=mesh, in_specs=parts, out_specs=parts))(X)
        jax.jit(lambda x: x * 6).lower(X).compile()

    found = [p for p in recorded(run) if not p.is_operation]
    assert len(found) == 4
    assert all(p.caller.user.startswith(HERE) for p in found)


def test_a_program_that_cannot_be_read_is_named(monkeypatch):
    def fail(*_):
        raise KeyError("odd")

    found = recorded(lambda: jax.jit(lambda x: x * 7)(X))
    monkeypatch.setattr(_after, "audited", fail)
    judged = _after.judged(found, "cuda")
    assert list(judged.unread.values()) == ["KeyError: 'odd'"]


def test_a_pause_keeps_nothing_and_calls_as_usual():
    recorder = _after.Recorder()
    seen = []

    def called(call):
        seen.append([name for name, _ in call.arguments])
        return call.run()

    twice = jax.jit(lambda x, unread: x * 8 + unread.shape[0])
    with recorder.watched(called):
        twice(X, INDEX)
        twice(X, INDEX)
        compiled = jax.jit(lambda y: y * 9).lower(X).compile()
        compiled(X)
        compiled(X)
        with recorder.paused():
            twice(X, INDEX)
            jax.jit(lambda x: x * 10)(X)
    assert seen == [["x"], ["x"], ["y"], ["y"]]
    assert len(recorder.programs) == 2
    np.testing.assert_array_equal(twice(X, INDEX), X * 8 + 9)
    assert len(seen) == 4


def test_an_error_is_shown_as_python_shows_it(attempt, capsys):
    assert attempt("def f():\n    1 / 0\nf()\n") == "raised ZeroDivisionError"
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('train.py", line 3, in <module>')
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert attempt("1 +") == "raised SyntaxError"
    assert "_after.py" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "failure", "shown"),
    [
        ("exit(0)", None, ""),
        ("exit(None)", None, ""),
        ("exit(3)", "ended with the exit status 3", ""),
        ("exit('no data')", "ended with the exit status 1", "no data\n"),
        # A program has its arguments, and the report its output.
        ("stdout.write(f'{__name__} {sys.argv[1:]}')", None, "__main__ ['--fast', '3']"),
    ],
)
def test_the_exit_status_and_the_output_of_a_program(attempt, capsys, end, failure, shown):
    assert attempt(f"import sys; sys.{end}", "--fast", "3") == failure
    assert capsys.readouterr() == ("", shown)


def test_a_program_ends_after_its_threads_and_before_an_idle_executor(attempt, capsys):
    source = (
        "import time, threading, concurrent.futures as futures\n"
        "def late(word):\n    time.sleep(0.3)\n    print(word)\n"
        "pool = futures.ThreadPoolExecutor(1)\n"
        "pool.submit(late, 'pool 1'), pool.submit(late, 'pool 2')\n"
        "threading.Thread(target=late, args=('thread',)).start()\n"
    )
    assert attempt(source) is None
    printed = capsys.readouterr()
    assert {"pool 1", "pool 2", "thread"} == {*(printed.out + printed.err).splitlines()}


def test_threads_of_the_caller_are_not_waited_for(attempt):
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, args=(60,))
    thread.start()
    try:
        assert attempt("1 + 1") is None
        assert thread.is_alive()
    finally:
        ended.set()
        thread.join()


def made(make):
    with _generators.watched() as watch:
        make()
    return [(found.kind, found.line.rpartition(":")[0], n) for found, n in watch.made.items()]


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
