"""JAX programs of the suite: what is compiled, with which options, and what is made again."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance import trial

X = jnp.zeros((4, 3))
INDEX = jnp.array([1, 1])


def test_equal_programs_are_compiled_once():
    before = len(trial._compiled)
    x = (np.ones(5, np.float32),)
    assert trial.prepare(lambda x: x * 3.5, x)().tolist() == [3.5] * 5
    assert trial.prepare(lambda x: x * 3.5, x)().tolist() == [3.5] * 5
    assert len(trial._compiled) == before + 1
    assert trial.prepare(lambda x: x * 4.5, x)().tolist() == [4.5] * 5
    assert len(trial._compiled) == before + 2


@pytest.mark.parametrize(
    ("emulated", "exact", "level"),
    [(False, True, 3), (False, False, 3), (True, True, 1), (True, False, 0)],
)
def test_a_native_program_is_compiled_with_the_options_of_users(
    monkeypatch, emulated, exact, level
):
    all_options = []
    compile_ = jax.stages.Lowered.compile

    def compiles(lowered, options):
        all_options.append({"xla_backend_optimization_level": 3} | (options or {}))
        return compile_(lowered, options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compiles)
    monkeypatch.setattr(trial, "_compiled", {})
    with impl.testing.emulate("cuda") if emulated else contextlib.nullcontext():
        assert trial.prepare(lambda x: x * 5.5, (np.ones(2),), exact=exact)().tolist() == [5.5] * 2
    assert [options["xla_backend_optimization_level"] for options in all_options] == [level]
    assert emulated or len(all_options[0]) == 1


@pytest.mark.parametrize(("backend", "device"), [("cpu", "cpu"), ("gpu", "cuda"), ("cuda", "cuda")])
def test_a_backend_is_a_device_of_the_spec(monkeypatch, backend, device):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert trial.here() == device


def test_a_program_is_made_again_only_if_the_spec_answers_differently():
    programs = []

    def make():
        programs.append(1)
        # JAX traces a function once, so this is a new function each time.
        impl.testing.lower(lambda x: impl.index_add(x, 0, INDEX, x[:2]), X)
        return len(programs)

    def under(**mode):
        with impl.deterministic(**mode):
            return trial.remembered(make, "cuda", "a key of this test")

    assert under(mode=False) == 1
    assert under(profile="complete") == 2
    assert under(profile="torch-2.15") == 2  # The answer for this platform is the same.
    assert under(mode=False) == 1
    with impl.testing.emulate("cuda"):
        assert under(mode=False) == 3
    assert trial.remembered(make, "cuda", None) == 4
    for number in (5, 6):
        make_without_questions = functools.partial(int, number)
        assert (
            trial.remembered(make_without_questions, "cuda", "a namespace that asks nothing")
            == number
        )
