"""A portable program adds and multiplies nothing that an order, a library or a fusion changes.

So a program that nobody rewrote learns the same bits on one device and on eight, on every JAX.
"""

import dataclasses
import functools
import os
import re

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import impl
from conformance.lab.portable import code, programs, test_settings
from impl._core import numerics
from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS
from impl._native import library
from impl._portable.rules import RULES

X, INDEX = jnp.ones((4, 3)), jnp.array([1, 1])
#: The elementary functions of two operands, and the options of others.
OF_TWO, OPTIONS = {"atan2", "div", "pow"}, {"integer_pow": {"y": 7}}
IMAGE = jnp.ones((1, 2, 5))


def found(function, platform, *operands):
    """Returns the violations of a function that is lowered anew under the guarantee."""
    with impl.deterministic(guarantee="portable"):
        traced = jax.jit(functools.partial(function)).trace(*operands)
        module = traced.lower(lowering_platforms=(platform,)).compiler_ir()
    return code.violations(module, platform)


@pytest.mark.parametrize(
    ("name", "platforms"),
    [
        # `nox -s gpu_compile` reads every program for every platform.
        pytest.param("mixed_precision", ("rocm",), marks=pytest.mark.once),
        ("recurrent", ("cpu", "cuda", "rocm")),
        ("curve_fit", ("cuda",)),
        pytest.param("conv_net", ("cuda",), marks=pytest.mark.once),
    ],
)
def test_a_portable_program_has_nothing_that_differs_elsewhere(name, platforms):
    modules = code.lowered(name, platforms)
    for platform, module in modules.items():
        assert code.violations(module, platform) == []
        # A layout that XLA keeps is written as a call, and a CPU calls the native engine.
        calls = set(re.findall(r"custom_call @(\w+)", str(module)))
        assert calls <= {"LayoutConstraint", *(library.CALLS if platform == "cpu" else ())}


def test_elementary_functions_have_nothing_that_differs_elsewhere():
    def everything(x):
        return [
            function(*[x] * (2 if name in OF_TWO else 1), **OPTIONS.get(name, {}))
            for name, function in FUNCTIONS.items()
        ]

    with arithmetic.wide():
        traced = jax.jit(everything).trace(jax.ShapeDtypeStruct((3,), "float32"))
        module = traced.lower(lowering_platforms=("cuda",)).compiler_ir()
    assert code.violations(module, "cuda") == []


def test_a_plain_program_has_much():
    (module,) = code.lowered("recurrent", ("cuda",), plain=True).values()
    text = "\n".join(code.violations(module, "cuda"))
    for name in ("reduce", "dot_general", "scatter", "tanh", "divide", "multiply"):
        assert f"stablehlo.{name} to" in text


def conv(x, kernel):
    return lax.conv_general_dilated(x, kernel, (1,), "SAME")


def library_conv(x, kernel, **_):
    with numerics.in_any_order():
        return conv(x, kernel)


def plain_product(lhs, rhs, *, dimension_numbers, **_):
    return lax.dot_general(lhs, rhs, dimension_numbers)


def plain_scatter(operand, indices, updates, *, dimension_numbers, **_):
    wide = (lax.convert_element_type(each, "float64") for each in (operand, updates))
    first, second = wide
    result = lax.scatter_add(first, indices, second, dimension_numbers)
    return lax.convert_element_type(result, operand.dtype)


def narrowed_root(x, **_):
    return lax.convert_element_type(lax.sqrt(lax.convert_element_type(x, "float64")), x.dtype)


def plain_convert(x, *, new_dtype, **_):
    return lax.convert_element_type(x, new_dtype)


def plain_index(x, *, axes, index_dtype, **_):
    return lax.argmax(x, axes[0], index_dtype)


def two_parts(x):
    return jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))(x)


BROKEN = {
    "sqrt": (narrowed_root, jnp.sqrt, (X,), "sqrt"),
    "convert_element_type": (plain_convert, lambda x: x.astype("bfloat16") + 1, (X,), "convert"),
    "reduce_sum": (lambda x, *, axes, **_: lax.reduce_sum(x, axes), jnp.sum, (X,), "reduce"),
    "dot_general": (plain_product, jnp.dot, (X, X.T), "dot_general"),
    "exp": (lambda x, **_: lax.exp(x), jnp.exp, (X,), "exponential"),
    "argmax": (plain_index, jnp.argmax, (X,), "reduce"),
    "floor": (lambda x, **_: lax.floor(x), lax.floor, (X,), "floor"),
    "reduce_max": (lambda x, *, axes, **_: lax.reduce_max(x, axes), jnp.max, (X,), "reduce"),
    "add_any": (lambda a, b, **_: lax.add(a, b), two_parts, (X.astype("bfloat16"),), "add"),
    "lt_to": (lambda a, b, **_: lax.lt_to_p.bind(a, b), lax.lt_to_p.bind, (X, X), "compare"),
    "max": (lambda a, b, **_: lax.max(a, b), lax.max, (X, X), "maximum"),
    "mul": (lambda a, b, **_: lax.mul(a, b), lax.mul, (X, X), "multiply"),
    "div": (lambda a, b, **_: lax.div(a, b), lax.div, (X, X), "divide"),
    "scatter-add": (plain_scatter, lambda x: x.at[INDEX].add(x[:2]), (X,), "scatter"),
    "conv_general_dilated": (library_conv, conv, (IMAGE, IMAGE), "convolution"),
}


@pytest.mark.once
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found(name, monkeypatch):
    broken, function, operands, operation = BROKEN[name]
    assert found(function, "cuda", *operands) == []
    monkeypatch.setitem(RULES, name, dataclasses.replace(RULES[name], compute=broken))
    assert [line for line in found(function, "cuda", *operands) if f".{operation} to" in line]


def test_every_program_has_a_digest():
    assert set(test_settings.DIGESTS) == set(programs.PROGRAMS)


@pytest.mark.parametrize("name", ["recurrent", "curve_fit"])
def test_a_program_on_eight_devices_has_the_digest_of_all(name):
    test_settings.test_digest(name, 8, 2, "")


def test_a_process_that_fails_and_other_bits_are_found(monkeypatch):
    monkeypatch.setitem(os.environ, "XLA_FLAGS", "--no_such_flag")
    with pytest.raises(AssertionError, match="no_such_flag"):
        test_settings.test_digest("recurrent", 8, 2, "")
    done = test_settings.subprocess.CompletedProcess([], 0, "jax 0.10.2\nrecurrent 33\n")
    monkeypatch.setattr(test_settings.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(AssertionError, match="33"):
        test_settings.test_digest("recurrent", 8, 2, "eager")
