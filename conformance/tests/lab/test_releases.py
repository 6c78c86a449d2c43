"""Releases of JAX are compared by equations, and the kept list is about functions that exist."""

import importlib
import inspect
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conformance.lab import releases
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


def test_bits_are_those_of_ordinary_arguments_and_of_borders():
    x = (np.linspace(0.5, 1, 6, dtype=np.float32),)
    usual = releases.bits(jnp.abs, x)
    clipped = releases.bits(lambda x: jnp.minimum(jnp.abs(x), 3), x)
    assert usual["ordinary"] == clipped["ordinary"]
    assert usual["borders"] != clipped["borders"]


def test_what_differs_is_kept_by_kind(monkeypatch):
    digests = {
        "f 0": ("a", "b"),
        "f 1": ("a", "b"),
        "g 0": ("a", "a"),
        "h 0": ("a", "b"),
        "i 0": ("a", "b"),
    }

    def run(python, command, names):
        side = int(python != sys.executable)
        if command == "traces":
            place = {"file": "jax/f.py", "function": "f"}
            return {name: {"digest": each[side], **place} for name, each in digests.items()}
        assert names == ["f 0", "f 1", "h 0", "i 0"]
        changed = {
            "f 0": {"ordinary": side, "borders": side},
            "f 1": {"ordinary": 0, "borders": side},
        }
        return changed | {"h 0": {"ordinary": 0, "borders": 0}}

    monkeypatch.setattr(releases, "run", run)
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
