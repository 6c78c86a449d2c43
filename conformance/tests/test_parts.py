"""The parts that the suite judges with: each is shown what it has to find."""

import contextlib
import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance import __main__ as command
from conformance import ir, trial
from conformance.case import Sample, samples
from conformance.cells import cells

X = jnp.zeros((4, 3))
INDEX = jnp.array([1, 1])


def index_add(x):
    return impl.index_add(x, 0, INDEX, x[:2])


def test_a_race_is_found_in_an_atomic_kernel_and_not_in_an_ordered_one():
    text = trial.lower(index_add, (X,), "cuda")
    assert ir.races(text) == ["scatter_add_atomic"]
    with impl.deterministic(profile="complete"):
        text = trial.lower(index_add, (X,), "cuda")
    assert ir.races(text) == []
    assert ir.kernels(text) == ["scatter_add_ordered_fold", "scatter_add_ordered_panels"]


def test_a_program_without_its_kernels_code_still_tells_paths_apart():
    off = trial.lower(index_add, (X,), "cuda")
    with impl.deterministic(profile="complete"):
        on = trial.lower(index_add, (X,), "cuda")
    assert "ML\\EFR" in off
    off, on = map(ir.without_kernel_code, (off, on))
    assert "ML\\EFR" not in off + on
    assert "scatter_add_atomic" in off
    assert off != on


def test_a_scatter_of_integers_is_no_race():
    text = trial.lower(index_add, (X.astype(int),), "cuda")
    assert "stablehlo.scatter" in text
    assert ir.races(text) == []


def test_a_racing_store_is_found():
    text = trial.lower(lambda x: impl.kthvalue(x, 1, 0), (X,), "cuda")
    assert ir.races(text) == ["select_atomic_any"]


def test_an_xla_scatter_of_floats_is_a_race_unless_indices_are_unique():
    def scatter(unique):
        return lambda x: x.at[INDEX].add(1, unique_indices=unique)

    assert ir.races(trial.lower(scatter(False), (X,), "cuda")) == ["stablehlo.scatter"]
    assert ir.races(trial.lower(scatter(True), (X,), "cuda")) == []
    assert ir.races(trial.lower(scatter(False), (X.astype(int),), "cuda")) == []


@pytest.mark.parametrize(
    "other",
    [
        np.array([-0.0, 1.0], np.float32),
        np.array([0.0, 1.0], np.float64),
        np.array([[0.0, 1.0]], np.float32),
    ],
    ids=["sign of zero", "dtype", "shape"],
)
def test_bits_tell_apart_what_compares_equal(other):
    assert trial.bits(np.array([0.0, 1.0], np.float32)) != trial.bits(other)


def test_a_wrong_value_is_not_accepted():
    (sample, *_) = samples("index_add")
    assert isinstance(sample, Sample)
    right = sample.expected(*sample.arrays)
    sample.judge("forward", right.astype(np.float32))
    right[0, 0] += 0.1
    with pytest.raises(AssertionError):
        sample.judge("forward", right.astype(np.float32))


def test_equal_programs_are_compiled_once_and_others_are_not():
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
def test_what_is_run_in_earnest_is_compiled_as_for_users(monkeypatch, emulated, exact, level):
    given = []
    compile_ = jax.stages.Lowered.compile

    def compiles(lowered, options):
        given.append({"xla_backend_optimization_level": 3} | (options or {}))
        return compile_(lowered, options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compiles)
    monkeypatch.setattr(trial, "_compiled", {})
    with impl.testing.emulate("cuda") if emulated else contextlib.nullcontext():
        assert trial.prepare(lambda x: x * 5.5, (np.ones(2),), exact=exact)().tolist() == [5.5] * 2
    assert [options["xla_backend_optimization_level"] for options in given] == [level]
    assert emulated or len(given[0]) == 1


def test_names_of_cells_are_unique():
    names = [str(cell) for cell in cells()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cuda"], "a device that impl does not see here"),
        (["--report", "/nowhere/x.json"], "there is no folder /nowhere"),
        (["--expectations", "/nowhere/x.toml"], "there is no such file"),
    ],
)
def test_what_keeps_the_suite_from_running_is_said(arguments, message, capsys):
    if jax.default_backend() != "cpu":
        pytest.skip("speaks of a machine without a GPU")
    assert command.main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_run_writes_a_report_with_the_outcome_of_each_check(tmp_path):
    file = tmp_path / "report.json"
    arguments = ["run", "--profile", "torch-2.12", "--report", str(file), "-k", "R0059 and rows"]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", *arguments, "-n0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["environment"]["jax"] == jax.__version__
    checks = {(record["row"], record["check"], record["outcome"]) for record in report["records"]}
    assert checks == {("R0059", check, "passed") for check in ("off", "raise", "warn only")}


def test_what_was_made_is_made_again_only_where_the_spec_answers_otherwise():
    made = []

    def make():
        made.append(1)
        # A new function each time, or JAX does not trace it again.
        impl.testing.lower(lambda x: index_add(x), X)  # noqa: PLW0108
        return len(made)

    def under(**mode):
        with impl.deterministic(**mode):
            return trial.remembered(make, "cuda", "a key of this test")

    assert under(mode=False) == 1
    assert under(profile="complete") == 2
    assert under(profile="torch-2.15") == 2  # on this platform the same answer
    assert under(mode=False) == 1
    with impl.testing.emulate("cuda"):
        assert under(mode=False) == 3
    assert trial.remembered(make, "cuda", None) == 4
    for number in (5, 6):
        asks_nothing = functools.partial(int, number)
        assert trial.remembered(asks_nothing, "cuda", "a namespace that asks nothing") == number
