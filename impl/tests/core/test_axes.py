"""The three axes of the core primitives, and indices into them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core import axes


@pytest.mark.parametrize(
    ("shape", "dim", "result"),
    [
        ((2, 3, 4, 5), 1, (2, 3, 20)),
        ((2, 3), 0, (1, 2, 3)),
        ((7,), 0, (1, 7, 1)),
        ((), 0, (1, 1, 1)),
    ],
)
def test_three_axes(shape, dim, result):
    assert axes.three_axes(jnp.zeros(shape), dim).shape == result


def test_an_index_out_of_range_becomes_the_size():
    index = jnp.array([-1, 0, 2, 3, 2**31 - 1])
    assert axes.within(index, 3).tolist() == [3, 0, 2, 3, 3]


def test_a_narrow_index_becomes_wide_before_it_is_replaced():
    index = jnp.array([-1, 0, 44, 127], jnp.int8)
    assert axes.within(index, 300).tolist() == [300, 0, 44, 127]


def test_a_wide_index_is_replaced_before_it_is_narrowed():
    with jax.enable_x64(True):
        narrow = axes.within(jnp.array([2**32 + 1, 1]), 3)
    assert (narrow.dtype, narrow.tolist()) == (np.int32, [3, 1])


def test_a_negative_index_counts_from_the_end():
    assert axes.wrapped(jnp.array([-1, -3, -4, 2], jnp.int8), 3).tolist() == [2, 0, -1, 2]
    assert axes.wrapped(jnp.array([-1], jnp.int8), 1000).tolist() == [999]


def test_the_dtype_of_an_index_can_count_every_element():
    assert axes.index_dtype(2**31 - 1) == np.int32
    with pytest.raises(NotImplementedError, match="32 bits cannot count 2147483648 elements"):
        axes.index_dtype(2**31)
    with jax.enable_x64(True):
        assert axes.index_dtype(2**31) == np.int64


def test_a_corner_is_whole_along_its_dimension():
    values = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(values[axes.corner_slices((2, 1), 1)], values[:2])
    assert axes.at_least_1d(jnp.ones(())).shape == (1,)
    assert axes.at_least_1d(jnp.ones((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("outer", [1, 2])
def test_rows_are_those_of_numpy(outer):
    values = np.arange(outer * 12, dtype=np.float32).reshape(outer, 4, 3)
    index = np.array([[3, 0, 0], [1, 2, 3]])[:outer]
    np.testing.assert_array_equal(axes.rows_at(values, index[0]), values[:, index[0]])
    rows = axes.rows_of_each(jnp.asarray(values), jnp.asarray(index))
    np.testing.assert_array_equal(rows, [values[a, index[a]] for a in range(outer)])
