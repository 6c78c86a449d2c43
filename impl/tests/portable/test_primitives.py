"""Every primitive of JAX is in one class under ``portable``, and each rule has a function."""

import importlib

import jax
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir

import impl
import spec
from impl._core.jax_internals import lowering
from impl.programs import _portable

CLASSES = spec.load().class_of_primitive
#: Modules of JAX that make primitives when they are imported.
MODULES = (
    "jax.experimental.pallas",
    "jax.experimental.sparse",
    "jax.lax.linalg",
    "jax.scipy.special",
    "jax.scipy.linalg",
    "jax.numpy.fft",
)


@pytest.fixture(scope="module")
def primitives():
    for module in MODULES:
        importlib.import_module(module)
    of_lax = {value for value in vars(lax).values() if isinstance(value, Primitive)}
    return of_lax | set(lowering.primitives())


def test_every_primitive_of_jax_has_a_class(primitives):
    names = {p.name for p in primitives if not p.name.startswith("samebits_")}
    assert sorted(names - set(CLASSES)) == []
    assert len(names) > 250


def test_every_rule_has_a_function():
    for name, found in CLASSES.items():
        if found.answer == "rule" and found.name not in ("selections", "sequences", "written"):
            assert callable(_portable.portable_function(name)), name


def test_a_primitive_that_another_library_makes_later_gets_a_rule():
    made = Primitive("somebody_elses")
    made.def_abstract_eval(lambda x: x)
    mlir.register_lowering(made, lambda _, x: [x])
    with (
        impl.deterministic(guarantee="portable"),
        pytest.raises(RuntimeError, match="somebody_elses of float32"),
    ):
        jax.jit(made.bind)(1.0)
