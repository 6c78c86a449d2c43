"""The items about a program that ran: what it compiled, and its generators."""

import sys

import pytest

from impl.diagnosis import _after, _program
from impl.diagnosis._generators import Global, Watch
from impl.tests.diagnosis._verdicts import FIXED, PROCESS, UNKNOWN

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
def ran(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)

    def run(text, device="cuda"):
        (tmp_path / "train.py").write_text(text)
        return _after.ran((tmp_path / "train.py").relative_to(tmp_path), [], device)

    return run


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
