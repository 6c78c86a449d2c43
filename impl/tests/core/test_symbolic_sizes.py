"""Symbolic sizes: exported where nothing depends on them, else refused with the op's name."""

import jax
import jax.numpy as jnp
import pytest

import impl
from impl._core import arguments

pytestmark = pytest.mark.usefixtures("complete")


def export(function, *shapes):
    """Exports a call. ``shapes`` are pairs of a text, such as ``"b, 3"``, and a dtype."""
    scope = jax.export.SymbolicScope()
    arguments = (
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype)
        for shape, dtype in shapes
    )
    return jax.export.export(jax.jit(function))(*arguments)


def test_a_call_that_depends_on_no_size_is_exported():
    exported = export(lambda x, i: impl.index_select(x, 0, i), ("4, 3", "float32"), ("b", "int32"))
    assert str(exported.out_avals[0].shape) == "(b, 3)"


def test_an_argument_whose_size_is_compared_is_named():
    with pytest.raises(NotImplementedError, match=r"gather\(\).*'index' of shape \[3, b\]"):
        export(lambda x, i: impl.gather(x, 0, i), ("3, 3", "float32"), ("3, b", "int32"))


def test_a_running_sum_needs_no_size():
    exported = export(lambda x: impl.cumsum(x, 0), ("b, 3", "float32"))
    assert str(exported.out_avals[0].shape) == "(b, 3)"


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), arguments.needs_sizes("op", input=jnp.zeros(3)):
        raise ZeroDivisionError
