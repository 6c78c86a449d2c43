"""Releases of JAX are compared by equations, and the kept list is about functions that exist."""

import contextlib
import importlib
import inspect
import sys

import jax
import jax.numpy as jnp
import pytest

from conformance.hunt import releases
from conformance.hunt.crew import Kind, Worker
from spec import releases_of_jax

CAUCHY = ("jax.scipy.stats.cauchy",)


def test_the_equations_of_a_program_do_not_depend_on_names_and_calls():
    def inlined(x):
        return jnp.sin(x) * 2

    called = releases.text(jax.make_jaxpr(inlined)(1.0))
    assert called == releases.text(jax.make_jaxpr(lambda y: jnp.sin(y) * 2)(1.0))
    assert called != releases.text(jax.make_jaxpr(lambda y: jnp.sin(y) * 3)(1.0))
    assert called != releases.text(jax.make_jaxpr(lambda y: jnp.sin(y) * y)(1.0))


def test_functions_and_their_derivatives_are_traced(monkeypatch):
    monkeypatch.setattr(releases, "MODULES", CAUCHY)
    found = releases.traces()
    orders = {
        name.partition(" ")[2] for name in found if name.startswith("jax.scipy.stats.cauchy.p")
    }
    assert orders == {"0", "1", "2"}
    assert found["jax.scipy.stats.cauchy.ppf 0"]["file"] == "jax/_src/scipy/stats/cauchy.py"
    assert found == releases.traces()
    assert len(set(map(str, found.values()))) == len(found)


def test_bits_are_those_of_ordinary_arguments_and_of_borders(monkeypatch):
    monkeypatch.setattr(releases, "MODULES", CAUCHY)
    name = "jax.scipy.stats.cauchy.pdf 0"
    for kind in ("ordinary", "borders"):
        function, arguments, how = releases.runnable(name, kind)
        assert (how, (arguments[0] == 0).any()) == ("jit", kind == "borders")
        assert all(leaf.shape == (6,) for leaf in jax.tree.leaves(function(*arguments)))
    with contextlib.closing(Worker(Kind())) as worker:
        ordinary, borders = releases.bits(worker, name)
        assert ordinary != borders
        assert releases.bits(worker, "jax.numpy.none 0") == ["StopIteration"] * 2
    monkeypatch.setattr(Worker, "ask", lambda *_: {"error": "hang", "message": ""})
    assert releases.bits(worker, name) is None


def test_what_differs_is_kept_by_kind(monkeypatch):
    digests = {"f 0": "ab", "f 1": "ab", "g 0": "aa", "h 0": "ab", "i 0": "ab"}
    changed = {"f 0": ["other", "other"], "f 1": ["same", "other"], "i 0": None}

    def traces(python):
        own, place = int(python != sys.executable), {"file": "jax/f.py", "function": "f"}
        return {name: {"digest": each[own], **place} for name, each in digests.items()}

    def bits(worker, name):
        assert name != "g 0"
        is_other = worker.kind.python != sys.executable and name in changed
        return changed[name] if is_other else ["same", "same"]

    monkeypatch.setattr(releases, "_traces_of", traces)
    monkeypatch.setattr(releases, "bits", bits)
    text = releases.compared("other")
    assert 'name = "f"\nfile = "jax/f.py"\nfunction = "f"\nbits = [0]\nborders = [1]\n' in text
    assert 'name = "h"\nfile = "jax/f.py"\nfunction = "f"\ntext = [0]\n' in text
    assert 'name = "i"\nfile = "jax/f.py"\nfunction = "f"\nuntried = [0]\n' in text
    assert '"g"' not in text


@pytest.mark.parametrize("found", releases_of_jax.functions(), ids=lambda found: found.name)
def test_the_list_names_functions_that_exist(found):
    module, _, name = found.name.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    code = getattr(inspect.unwrap(function), "__code__", None)
    assert found.orders or found.text
    if code is not None and found.file:
        assert code.co_name == found.function
