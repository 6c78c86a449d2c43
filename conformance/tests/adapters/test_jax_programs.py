"""Programs of JAX functions are lowered and compiled once."""

import collections
import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance import __main__ as command
from conformance.adapters import _jax_programs
from conformance.adapters._jax_programs import prepare, remembered

X = jnp.zeros((4, 3))
INDEX = jnp.array([1, 1])


def test_equal_programs_are_compiled_once_and_others_are_not():
    before = len(_jax_programs._executables)
    x = (np.ones(5, np.float32),)
    assert prepare(lambda x: x * 3.5, x)().tolist() == [3.5] * 5
    assert prepare(lambda x: x * 3.5, x)().tolist() == [3.5] * 5
    assert len(_jax_programs._executables) == before + 1
    assert prepare(lambda x: x * 4.5, x)().tolist() == [4.5] * 5
    assert len(_jax_programs._executables) == before + 2


def test_few_lowered_programs_are_kept(monkeypatch):
    monkeypatch.setattr(_jax_programs, "_lowered", collections.OrderedDict())
    monkeypatch.setattr(_jax_programs, "_MOST_LOWERED", 2)
    x = (np.ones(3, np.float32),)
    calls = [functools.partial(lambda x, i: impl.cumsum(x * i, 0), i=i) for i in range(4)]
    for number, call in enumerate(calls):
        text = _jax_programs.lower(call, x, "cpu", ("of this test", number))
        assert list(_jax_programs._lowered)[-1] == text
        assert len(_jax_programs._lowered) == min(number + 1, 2)
    # A program that is no longer kept is lowered again before it is compiled.
    for number, call in enumerate(calls):
        run = prepare(call, x, ("of this test", number))
        assert run().tolist() == [number, 2 * number, 3 * number]


# A contraction needs a product of floats.
SUM, PRODUCT = (lambda x: x + x), (lambda x: x * 2.0)


@pytest.mark.parametrize(
    ("emulated", "exact", "function", "level"),
    [
        (False, True, PRODUCT, 3),
        (False, False, PRODUCT, 3),
        (False, True, SUM, 3),
        (True, True, PRODUCT, 1),
        (True, False, PRODUCT, 0),
        (True, True, SUM, 0),
    ],
)
def test_a_program_of_the_device_itself_is_compiled_as_for_users(
    monkeypatch, emulated, exact, function, level
):
    options_of_compile = []
    compile_ = jax.stages.Lowered.compile

    def compiles(lowered, options):
        options_of_compile.append({"xla_backend_optimization_level": 3} | (options or {}))
        return compile_(lowered, options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compiles)
    monkeypatch.setattr(_jax_programs, "_executables", {})
    with impl.testing.emulate("cuda") if emulated else contextlib.nullcontext():
        run = prepare(lambda x: function(x), (np.ones(2),), exact=exact)  # noqa: PLW0108  # traced
        assert run().tolist() == [2] * 2
    levels = [options["xla_backend_optimization_level"] for options in options_of_compile]
    assert levels == [level]
    assert emulated or len(options_of_compile[0]) == 1


@pytest.mark.parametrize(
    ("function", "dtype", "has_products"),
    [
        (lambda x: x * x, "float16", True),
        (lambda x: x * x, "bfloat16", True),
        (lambda x: x * x, "complex64", True),
        (lambda x: x * x, "int32", False),
        (lambda x: x / 3, "float32", True),
        (lambda x: x @ x, "float32", True),
        (lambda x: x.at[:2].multiply(x[1:3]), "float32", True),
        (lambda x: jnp.prod(x), "float32", True),  # noqa: PLW0108  # a new function is traced anew
        (lambda x: jax.nn.softmax(x), "float32", True),  # noqa: PLW0108
        (lambda x: jax.lax.erf_inv(x), "float32", True),  # noqa: PLW0108
        (lambda x: jnp.cumsum(jnp.sort(x)) - x.max(), "float32", False),
    ],
)
def test_products_of_floats_are_found_in_a_program(function, dtype, has_products):
    text = jax.jit(function).lower(jnp.ones(4, dtype)).as_text()
    assert bool(_jax_programs._PRODUCT.search(text)) is has_products


@pytest.mark.parametrize(("backend", "device"), [("cpu", "cpu"), ("gpu", "cuda"), ("cuda", "cuda")])
def test_a_backend_is_a_device_of_the_spec(monkeypatch, backend, device):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert _jax_programs.device_of_process() == device


def test_a_backend_that_no_row_is_about_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(jax, "default_backend", lambda: "npu")
    assert command.main(["run"]) == command.BROKEN
    assert "devices: RuntimeError: JAX computes on npu here" in capsys.readouterr().err


def test_a_program_is_made_again_only_where_the_spec_gives_another_answer():
    calls = []

    def make():
        calls.append(1)
        # JAX does not trace the same function again.
        impl.testing.lower(lambda x: impl.index_add(x, 0, INDEX, x[:2]), X)
        return len(calls)

    def under(**mode):
        with impl.deterministic(**mode):
            return remembered(make, "cuda", "a key of this test")

    assert under(mode=False) == 1
    assert under(profile="complete") == 2
    assert under(profile="torch-2.15") == 2  # on this platform the same answer
    assert under(mode=False) == 1
    with impl.testing.emulate("cuda"):
        assert under(mode=False) == 3
    assert remembered(make, "cuda", None) == 4
    for number in (5, 6):
        asks_nothing = functools.partial(int, number)
        assert remembered(asks_nothing, "cuda", "a namespace that asks nothing") == number
