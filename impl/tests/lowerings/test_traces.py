"""Tests of lowerings that are traced once."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import mlir

import impl
from impl._core.jax_internals import Primitive
from impl._core.jax_internals.lowering import Traced
from impl._lowerings import _traces


def _maker() -> tuple[Any, list[Any]]:
    traced: list[Any] = []

    def make(*, value: Any) -> Any:
        def run(x: Any) -> Any:
            traced.append(value)
            return x * value

        return run

    return make, traced


@pytest.mark.once
def test_a_lowering_is_traced_once_for_each_type_and_each_mode() -> None:
    make, traced = _maker()
    for _ in range(2):
        jax.make_jaxpr(_traces.traced_once(make, value=2.0))(jnp.ones(3))
    assert len(traced) == 1
    jax.make_jaxpr(_traces.traced_once(make, value=2.0))(jnp.ones(4))
    assert len(traced) == 2
    with impl.deterministic(True):
        jax.make_jaxpr(_traces.traced_once(make, value=2.0))(jnp.ones(3))
    assert len(traced) == 3


@pytest.mark.once
@pytest.mark.parametrize("values", [(0.0, -0.0), (1, True), (1, 1.0)])
def test_equal_parameters_that_differ_have_traces_of_their_own(values: Any) -> None:
    make, traced = _maker()
    for value in values:
        _traces.traced_once(make, value=value)(np.float32(1))
    assert list(map(repr, traced)) == list(map(repr, values))


@pytest.mark.once
def test_a_parameter_without_a_hash_is_traced_each_time() -> None:
    make, traced = _maker()
    for _ in range(2):
        value: Any = np.ones(())
        _traces.traced_once(make, value=value)(np.float32(1))
    assert len(traced) == 2


@pytest.mark.once
def test_the_equations_become_those_of_the_caller() -> None:
    make, _ = _maker()
    text = jax.jit(_traces.traced_once(make, value=2.0)).lower(jnp.ones(3)).as_text()
    assert "stablehlo.multiply" in text
    assert text.count("func.func") == 1


def _lowered(function: Any, *arrays: Any) -> str:
    """Returns the program of a primitive that has the rule of a function."""
    primitive = Primitive("test_traced")
    primitive.def_abstract_eval(lambda *avals: avals[0])
    rule = Traced(function).rule(multiple_results=False)
    mlir.register_lowering(primitive, rule)
    for _ in range(2):  # Each program has an equation of its own.
        text = jax.jit(functools.partial(primitive.bind)).lower(*arrays).as_text()
    return text


def test_a_rule_lowers_kept_equations_without_a_call() -> None:
    traced: list[Any] = []

    def run(x: Any) -> Any:
        traced.append(x)
        return x * np.arange(3, dtype=np.float32)

    text = _lowered(run, jnp.ones(3))
    assert len(traced) == 1
    assert "stablehlo.multiply" in text
    assert "call" not in text


def test_a_rule_keeps_no_equations_that_have_effects() -> None:
    traced: list[Any] = []

    def run(x: Any) -> Any:
        traced.append(x)
        jax.debug.callback(lambda _: None, x)
        return x

    assert "custom_call" in _lowered(run, jnp.ones(3))
    assert traced


@pytest.mark.once
def test_jax_forgets_kept_traces_with_its_own() -> None:
    make, traced = _maker()
    for number in (1, 2):
        for _ in range(2):
            jax.make_jaxpr(_traces.traced_once(make, value=2.0))(jnp.ones(37))
            assert len(traced) == number
        jax.clear_caches()
