"""The engine of a program: the device chooses, or a scope of tests.

Tests: impl._soft_float64.engines.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import testing

X = np.linspace(-2, 3, 48, dtype=np.float32).reshape(3, 16)


def text(platform, **options):
    with impl.deterministic(guarantee="portable"):
        lowered = testing.lower(lambda x: jnp.exp(x @ x.T), X, platform=platform, **options)
    return lowered.as_text()


def kinds(text):
    return ("f64" in text, "xi8>" in text)


def test_the_device_chooses_the_engine():
    assert kinds(text("cpu")) == (True, False)
    assert kinds(text("cuda", device_kind="NVIDIA H200")) == (True, False)
    assert kinds(text("cuda", device_kind="NVIDIA L40S")) == (True, True)
    assert kinds(text("tpu")) == (False, True)


@pytest.mark.parametrize("name", testing.engines())
def test_a_scope_chooses_the_engine(name):
    with testing.engine(name):
        found = text("cpu")
    assert (
        kinds(found)
        == {
            "native": (True, False),
            "float64": (True, False),
            "int8": (True, True),
            "integers": (False, True),
        }[name]
    )


def test_a_function_is_compiled_again_for_another_engine():
    compiled = []

    @jax.jit
    def function(x):
        compiled.append(None)
        return x + 1

    with impl.deterministic(guarantee="portable"):
        function(X)
        with testing.engine("integers"):
            function(X)
            function(X)
    assert len(compiled) == 2


def test_an_unknown_engine_is_named():
    with pytest.raises(ValueError, match=r"engine\(\): .*'name'"):
        testing.engine("float32")


@pytest.mark.parametrize(
    ("device", "kind", "name"),
    [
        ("cpu", None, "native"),
        ("cuda", None, "float64"),
        ("cuda", "NVIDIA L40S", "int8"),
        ("tpu", None, "integers"),
    ],
)
def test_the_audit_names_the_engine_of_the_program(device, kind, name):
    mesh = jax.sharding.use_abstract_mesh(testing._mesh(kind)) if kind else contextlib.nullcontext()
    with mesh:
        with impl.deterministic(guarantee="portable"):
            report = impl.audit(jnp.sin, device=device)(X)
        assert impl.audit(jnp.sin, device=device)(X).engine is None
    assert report.engine == report.as_dict()["engine"] == name
    first = report.text().splitlines()[0]
    assert first == report.summary().splitlines()[0]
    assert first.endswith(f"guarantee='portable'), by the engine {name!r}:")
