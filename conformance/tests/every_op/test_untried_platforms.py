"""Platforms on which nothing has run: every op is lowered for them, and calls no library.

A custom call is a call of a library or a kernel. Libraries of CUDA do not exist on a GPU of AMD.
``conformance.lab.portable.code`` reads whole programs under ``portable`` in the same way.
"""

import re

import jax
import jax.numpy as jnp
import pytest
from jax import export

import impl
import spec
from conformance.tests.every_op.calls import (
    first_calls,
    parametrize_by_primitives,
    parametrize_pairs,
)
from impl._reading.tracing import platform_at_hand
from impl.diagnosis import _program
from impl.tests.support.programs import scatters_floats

PLATFORMS = [name for device in spec.load().devices.values() for name in device.untried]
#: A custom call in the text of StableHLO: @name, or the name as an attribute.
CALL = re.compile(r"custom_call.*")
#: An operation of floats that a TPU approximates, and an array of float64, which it has not. It
#: multiplies bfloat16 exactly, and a sum in any order may round (``numerics.in_any_order``).
APPROXIMATE = re.compile(
    r"(?!.*samebits_any_order.*xbf16>, \S+xbf16>)"
    r"(?:stablehlo|chlo)\.(?:divide|remainder|power|sqrt|rsqrt|cbrt|exponential\w*|log\w*|sine|"
    r"cosine|tan|tanh|atan2|erf\w*|lgamma|digamma|dot\w*|convolution)\b.*[x<]b?f\d+>|[x<]f64>"
)


@pytest.mark.once
@parametrize_pairs("platform", PLATFORMS)
def test_every_op_is_exported_without_a_call_of_a_library(call, platform):
    with impl.deterministic(profile="complete"):
        exported = export.export(jax.jit(call.outputs), platforms=[platform])(*call.arrays)
    text = exported.mlir_module()
    assert CALL.findall(text) == []
    assert not scatters_floats(text)


# Each primitive has a rule, which is lowered in the same way for every op.
@pytest.mark.once
@parametrize_by_primitives(adding=True)
def test_every_op_under_portable_has_nothing_that_a_tpu_approximates(call):
    with impl.deterministic(profile="complete", guarantee="portable"):
        traced = jax.jit(call.outputs).trace(*call.arrays)
        text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert APPROXIMATE.findall(text) == []


@pytest.mark.once
def test_every_op_is_lowered_under_portable_with_equations_that_have_rules():
    for call in first_calls()["argvalues"]:
        with impl.deterministic(profile="complete", guarantee="portable"):
            # No op is refused: the rows of this project's own profile refuse nothing.
            assert jax.jit(call.outputs).lower(*call.arrays)


@pytest.mark.parametrize("function", [lambda x: x / 3, jnp.sqrt, lambda x: x @ x, jnp.tanh])
def test_an_approximation_is_found(function):
    traced = jax.jit(function).trace(jnp.ones((3, 3)))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert len(APPROXIMATE.findall(text)) == 1


def test_a_call_of_a_library_is_found():
    exported = export.export(jax.jit(jax.numpy.linalg.qr), platforms=["cpu"])(jax.numpy.eye(3))
    assert len(CALL.findall(exported.mlir_module())) > 0


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_doctor_says_that_nothing_has_run(platform):
    (item,) = _program.untried(platform)
    assert (item.value, item.verdict) == (platform, "varies per machine")
    assert item.reason == spec.load().platforms[platform].untried[platform]
    assert "no release of samebits has run on" in item.reason
    assert [*_program.untried("cuda"), *_program.untried(platform_at_hand())] == []
