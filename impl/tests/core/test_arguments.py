"""Values and sizes of arguments that are known or not; refused calls of ops have all checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._core import arguments


def test_an_index_is_checked_where_its_values_are_known():
    arguments.index_range("op", np.array([-3, 2]), 3, 0, wrap=True)
    arguments.index_range("op", np.array([], int), 0, 0)
    jax.jit(lambda i: arguments.index_range("op", i, 3, 0))(np.array([9]))
    assert arguments.known(np.array([1])).tolist() == [1]
    jax.jit(lambda i: [] if arguments.known(i) is None else 1 / 0)(np.array([9]))


def test_integers_of_numpy_are_ints():
    assert arguments.integers("op", "k", np.int64(3), 2) == (3, 3)
    assert arguments.sizes("op", (np.int64(2), 3)) == (2, 3)


def test_one_is_known_to_be_one():
    assert all(map(arguments.is_one, (1, 1.0, 1 + 0j)))
    assert not any(map(arguments.is_one, (2, "1", np.ones(1))))
    assert not jax.jit(lambda x: jnp.asarray(arguments.is_one(x)))(1)


def export(function, *shapes):
    """Exports a call. ``shapes`` are pairs of a text, such as ``"b, 3"``, and a dtype."""
    scope = jax.export.SymbolicScope()
    arguments = (
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype)
        for shape, dtype in shapes
    )
    return jax.export.export(jax.jit(function))(*arguments)


@pytest.mark.usefixtures("complete")
def test_a_call_that_depends_on_no_size_is_exported():
    rows = export(lambda x, i: impl.index_select(x, 0, i), ("4, 3", "float32"), ("b", "int32"))
    sums = export(lambda x: impl.cumsum(x, 0), ("b, 3", "float32"))
    assert str(rows.out_avals[0].shape) == str(sums.out_avals[0].shape) == "(b, 3)"


@pytest.mark.usefixtures("complete")
def test_an_argument_whose_size_is_compared_is_named():
    with pytest.raises(NotImplementedError, match=r"gather\(\).*'index' of shape \[3, b\]"):
        export(lambda x, i: impl.gather(x, 0, i), ("3, 3", "float32"), ("3, b", "int32"))
