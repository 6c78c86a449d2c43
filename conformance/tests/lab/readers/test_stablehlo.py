"""The races and loops that a lowered program shows."""

import jax
import jax.numpy as jnp
import pytest

import impl
from conformance.adapters._jax_programs import lower
from conformance.lab.readers import stablehlo
from impl._core.numerics import ANY_ORDER

X = jnp.zeros((4, 3))
INDEX = jnp.array([1, 1])


def index_add(x):
    return impl.index_add(x, 0, INDEX, x[:2])


def multiply(x):
    return impl.scatter_reduce(x, 0, INDEX[:, None], x[:2, :1], "prod")


@pytest.mark.triton
def test_a_race_is_found_in_an_atomic_kernel_and_not_in_an_ordered_one():
    text = lower(multiply, (X,), "cuda")
    assert stablehlo.races(text) == ["scatter_mul_atomic"]
    with impl.deterministic(profile="complete"):
        text = lower(multiply, (X,), "cuda")
    assert stablehlo.races(text) == []
    assert stablehlo.kernels(text) == ["scatter_mul_runs"]


def test_a_scatter_whose_error_is_bounded_is_no_race():
    with impl.deterministic(guarantee="portable"):
        text = lower(index_add, (X,), "rocm")
    assert "stablehlo.scatter" in text
    assert stablehlo.races(text) == []
    assert ANY_ORDER in text
    assert stablehlo.races(text.replace(ANY_ORDER, "another"))


@pytest.mark.triton
def test_a_program_without_its_kernels_code_still_tells_paths_apart():
    off = lower(multiply, (X,), "cuda")
    with impl.deterministic(profile="complete"):
        on = lower(multiply, (X,), "cuda")
    assert "ML\\EFR" in on
    off, on = map(stablehlo.without_kernel_code, (off, on))
    assert "ML\\EFR" not in off + on
    assert "scatter_mul_runs" in on
    assert off != on


def test_kernels_and_races_have_schedules():
    for function in (index_add, multiply):
        assert stablehlo.has_schedule(lower(function, (X,), "cuda"))
    for x, function in ((X, jnp.sin), (X.astype(int), index_add)):
        assert not stablehlo.has_schedule(lower(function, (x,), "cuda"))


def test_a_scatter_that_overwrites_is_a_race_of_any_dtype():
    for x in (X, X.astype(int)):
        text = lower(lambda x: x.at[INDEX].set(x[:2]), (x,), "cuda")
        assert stablehlo.races(text) == ["stablehlo.scatter"]


@pytest.mark.triton
def test_a_loop_that_is_longer_than_a_search_is_found():
    def serial(count):
        def step(k, x):
            return x.at[k % 4].add(x[0])

        return lambda x: jax.lax.fori_loop(0, x.size if count is None else count(x), step, x)

    def loops(count, size):
        return stablehlo.long_loops(lower(serial(count), (jnp.zeros(size),), "cuda"))

    assert loops(None, 64) == []
    assert loops(None, 65) == ["a loop of 65 steps"]
    assert loops(lambda x: x[0].astype(int), 4) == ["a loop of an unknown number of steps"]
    with impl.deterministic(profile="complete"):
        text = lower(multiply, (X,), "cuda")
    assert stablehlo.long_loops(text) == []


def test_an_xla_scatter_of_floats_is_a_race_unless_indices_are_unique():
    def races(unique, x):
        def scatter(x):
            return x.at[INDEX].add(1, unique_indices=unique)

        return stablehlo.races(lower(scatter, (x,), "cuda"))

    assert races(False, X) == ["stablehlo.scatter"]
    assert races(True, X) == []
    assert races(False, X.astype(int)) == []
