"""The lines of source that an equation comes from."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import impl
from impl._reading import source

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


def test_without_a_library_there_is_the_users_line_only():
    def function(x):
        return jax.lax.sin(x)

    (equation,) = equations(function, 1.0)
    here = function.__code__.co_firstlineno + 1
    assert source.lines(equation) == source.Lines(f"{HERE}:{here}")


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
