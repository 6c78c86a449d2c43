"""Races, kernels and long loops are found in the text of lowered programs."""

import jax
import jax.numpy as jnp

import impl
from conformance import ir, trial

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


def test_programs_of_two_paths_differ_without_the_code_of_their_kernels():
    off = trial.lower(index_add, (X,), "cuda")
    with impl.deterministic(profile="complete"):
        on = trial.lower(index_add, (X,), "cuda")
    assert "ML\\EFR" in off
    off, on = map(ir.without_kernel_code, (off, on))
    assert "ML\\EFR" not in off + on
    assert "scatter_add_atomic" in off
    assert off != on


def test_a_scatter_of_integers_does_not_race():
    text = trial.lower(index_add, (X.astype(int),), "cuda")
    assert "stablehlo.scatter" in text
    assert ir.races(text) == []


def test_a_racing_store_is_found():
    text = trial.lower(lambda x: impl.kthvalue(x, 1, 0), (X,), "cuda")
    assert ir.races(text) == ["select_atomic_any"]


def test_a_loop_longer_than_a_search_is_found():
    def serial(count):
        def step(k, x):
            return x.at[k % 4].add(x[0])

        return lambda x: jax.lax.fori_loop(0, x.size if count is None else count(x), step, x)

    def loops(count, size):
        return ir.long_loops(trial.lower(serial(count), (jnp.zeros(size),), "cuda"))

    assert loops(None, 64) == []
    assert loops(None, 65) == ["a loop of 65 steps"]
    assert loops(lambda x: x[0].astype(int), 4) == ["a loop of an unknown number of steps"]
    with impl.deterministic(profile="complete"):  # The only loops are searches.
        text = trial.lower(index_add, (X,), "cuda")
    assert "stablehlo.while" in text
    assert ir.long_loops(text) == []


def test_an_xla_scatter_of_floats_is_a_race_unless_indices_are_unique():
    def scatter(unique):
        return lambda x: x.at[INDEX].add(1, unique_indices=unique)

    assert ir.races(trial.lower(scatter(False), (X,), "cuda")) == ["stablehlo.scatter"]
    assert ir.races(trial.lower(scatter(True), (X,), "cuda")) == []
    assert ir.races(trial.lower(scatter(False), (X.astype(int),), "cuda")) == []
