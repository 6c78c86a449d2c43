"""The lines, the values and the calls of a jaxpr.

Tests: impl._reading.control_flow, impl._reading.values.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._jax import jaxpr_as_fun, jaxprs
from impl._reading import source
from impl._reading.control_flow import inlined
from impl._reading.values import Scope

HERE = "impl/tests/reading/test_source.py"


def equations(function, *args):
    return jax.make_jaxpr(function)(*args).jaxpr.eqns


def test_the_users_line_comes_before_the_librarys():
    def function(x):
        return jnp.histogram(x, weights=x)[0]  # The line of the test.

    scatter = [e for e in equations(function, jnp.ones(3)) if e.primitive.name == "scatter-add"]
    found = source.lines(scatter[0])
    assert found.user == f"{HERE}:{function.__code__.co_firstlineno + 1}"
    assert "jax/_src/numpy/" in found.library
    assert "(histogram)" in found.library
    # Without a library there is the user's line only.
    alone = lambda x: jax.lax.pow(x, 2.0)  # noqa: E731
    (equation,) = equations(alone, 1.0)
    assert source.lines(equation) == source.Lines(f"{HERE}:{alone.__code__.co_firstlineno}")


def test_a_function_that_a_library_traced_has_the_line_outside():
    def first(x):
        return jnp.take_along_axis(x, jnp.zeros((3, 1), int), 1)

    jax.make_jaxpr(first)(jnp.ones((3, 2)))  # This call makes the inner equations.
    (call,) = [e for e in equations(first, jnp.ones((3, 2))) if e.primitive.name == "jit"]
    inner = getattr(call.params["jaxpr"], "jaxpr", call.params["jaxpr"]).eqns
    found = source.lines(inner[0], source.Lines("their.py:3"))
    assert found.user == "their.py:3"
    assert "(take_along_axis)" in found.library
    found = source.lines(inner[0], source.Lines("their.py:3", "net.py:8 (Embed)", "(f)"))
    assert found.library == "net.py:8 (Embed)"
    assert "(take_along_axis)" in found.called


LIBRARY = """
import jax, jax.numpy as jnp

def embed(table, words):
    return jnp.take(table, words, axis=0)

@jax.jit
def summed(table, words):
    return embed(table, words).sum()
"""


def test_the_library_that_the_user_calls_is_named_beside_their_line(tmp_path):
    # As Flax, Equinox and Optax are: installed, and calling jitted functions of JAX.
    file = tmp_path / "site-packages" / "nets" / "layers.py"
    file.parent.mkdir(parents=True)
    file.write_text(LIBRARY)
    names = {}
    exec(compile(LIBRARY, str(file), "exec"), names)

    def step(table, words):
        return jax.grad(lambda t: names["summed"](t, words) + names["embed"](t, words).sum())(table)

    (finding,) = impl.audit(step)(jnp.ones((3, 2)), jnp.zeros(4, int)).findings
    assert finding.source == f"{HERE}:{step.__code__.co_firstlineno + 1}"
    assert finding.library == "nets/layers.py:5 (embed)"
    assert finding.count == 2


def test_a_library_alone_is_named_with_its_line(tmp_path):
    file = tmp_path / "site-packages" / "nets.py"
    names = {}
    exec(compile(LIBRARY, str(file), "exec"), names)
    step = jax.grad(names["summed"])
    (finding,) = impl.audit(step)(jnp.ones((3, 2)), jnp.zeros(4, int)).findings
    assert finding.source == "nets.py:5 (embed)"
    assert finding.library is None


SITE = "/usr/lib/python3/site-packages"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/home/me/train.py", "user"),
        ("<stdin>", "user"),
        (f"{SITE}/flax/linen/linear.py", "library"),
        (f"{SITE}/jax/_src/numpy/indexing.py", "ours"),
        (f"{SITE}/jax/_src/random.py", "ours"),
        (f"{SITE}/jax/_src/interpreters/ad.py", "none"),
        (f"{SITE}/jaxlib/xla_client.py", "none"),
        (source.__file__, "ours"),
        (__file__, "user"),
        (sys.modules["functools"].__file__, "none"),
        ("<frozen runpy>", "none"),
    ],
)
def test_whose_code_a_file_is(file, kind):
    assert source.kind_of(file) == kind


def test_a_path_is_shown_as_short_as_it_can_be(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert source.shown(str(tmp_path / "models" / "net.py")) == str(Path("models", "net.py"))
    assert source.shown(f"{SITE}/flax/linen/linear.py") == str(Path("flax/linen/linear.py"))
    assert source.shown("/elsewhere/net.py") == "/elsewhere/net.py"


# ruff: noqa: ARG005  # Each of these programs gets all of the arguments.


#: Programs of integers, which read their argument only for its shape.
KNOWN = {
    "arithmetic": lambda x: (3 * jnp.arange(7) - 4) * jnp.arange(7),
    "wraps": lambda x: jnp.arange(7, dtype=jnp.int8) * jnp.int8(60),
    "unsigned": lambda x: jnp.arange(7, dtype=jnp.uint8) - jnp.uint8(3),
    "division": lambda x: (jnp.arange(-7, 7) // 3) * 10 + jnp.arange(-7, 7) % 3,
    "lax division": lambda x: lax.div(jnp.arange(-7, 7), 3) + lax.rem(jnp.arange(-7, 7), 4),
    "choice": lambda x: jnp.where(jnp.arange(6) < 3, jnp.arange(6) + 6, -jnp.arange(6)),
    "bools": lambda x: (jnp.arange(6) >= 2) & ~(jnp.arange(6) == 4) | (jnp.arange(6) != 1),
    "bounds": lambda x: jnp.clip(jnp.arange(9), 2, 6) + jnp.minimum(jnp.arange(9), 3),
    "shapes": lambda x: jnp.arange(12).reshape(3, 4).T[::-1, 1:][None].squeeze(0),
    "grid": lambda x: jnp.stack(jnp.meshgrid(jnp.arange(3), jnp.arange(2)), -1).reshape(-1, 2),
    "constant": lambda x: jnp.asarray(np.array([4, 1, 1])) + 1,
    "signs": lambda x: jnp.sign(jnp.arange(-2, 3)) + jnp.abs(jnp.arange(-2, 3)),
    "inside jit": lambda x: jax.jit(lambda n: jnp.concatenate([n, n + 5]))(jnp.arange(4)),
}
UNKNOWN = {
    "argument": lambda x: x.astype(int),
    "mixed": lambda x: jnp.arange(3) + x.astype(int),
    "floats": lambda x: jnp.arange(3.0),
    "carry": lambda x: lax.fori_loop(0, 3, lambda i, n: n + i, jnp.arange(3)),
}


def scope_of(function):
    closed = jax.make_jaxpr(function)(jnp.ones(3))
    constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return Scope(closed.jaxpr, constants), closed.jaxpr.outvars[0]


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_value_is_the_value_of_a_run(name):
    scope, out = scope_of(KNOWN[name])
    value = scope.value(out)
    assert value is not None
    np.testing.assert_array_equal(value, KNOWN[name](jnp.ones(3)))
    assert value.dtype == out.aval.dtype


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_values_are_unknown_and_columns_are_known_one_by_one(name):
    scope, out = scope_of(UNKNOWN[name])
    assert scope.value(out) is None
    scope, out = scope_of(
        lambda x: jnp.stack([jnp.arange(3), UNKNOWN[name](x).astype(int)], -1).astype(jnp.int8)
    )
    first, second = scope.columns(out)
    np.testing.assert_array_equal(first, [0, 1, 2])
    assert second is None


@pytest.mark.parametrize(
    ("function", "axes", "constant"),
    [
        (lambda x: jnp.broadcast_to(x[0], (4,)), [0], True),
        (lambda x: jnp.broadcast_to(x, (4, 3)), [0], True),
        (lambda x: jnp.broadcast_to(x, (4, 3)), [0, 1], False),
        (lambda x: jnp.broadcast_to(x, (4, 3)).T * 2, [1], True),
        (lambda x: jnp.broadcast_to(x, (4, 3)).T * 2, [0], False),
        (lambda x: jnp.full((4, 3), 2.0).reshape(12), [0], True),
        (lambda x: x, [0], False),
        (lambda x: x, [], True),
        (lambda x: jnp.asarray(np.ones(3)), [0], True),
        (lambda x: jnp.asarray(np.arange(3.0)), [0], False),
        (lambda x: jnp.cumsum(jnp.ones(3)), [0], False),
    ],
)
def test_whether_a_value_is_constant_along_axes(function, axes, constant):
    scope, out = scope_of(function)
    assert scope.is_constant(out, axes) is constant


X = jnp.arange(3.0)


@jax.jit
def twice(x):
    return x + x


def names(jaxpr):
    return [each.primitive.name for each in jaxpr.eqns]


def test_nested_calls_become_one_flat_list_that_computes_the_same():
    def nested(x):
        return jax.jit(lambda x: twice(x) * x)(x) - twice(x)

    closed = jax.make_jaxpr(nested)(X)
    flat = inlined(closed.jaxpr)
    assert names(flat) == ["add", "mul", "add", "sub"]
    assert inlined(flat) is flat
    result = jaxpr_as_fun(jaxprs.reclosed(closed, flat))(X)[0]
    np.testing.assert_array_equal(result, nested(X))


def test_a_call_that_means_more_than_its_equations_stays():
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    for call in (jax.checkpoint(twice), jax.jit(twice, out_shardings=here)):
        jaxpr = jax.make_jaxpr(call)(X).jaxpr
        assert names(inlined(jaxpr)) == names(jaxpr)
        assert len(names(jaxpr)) == 1
