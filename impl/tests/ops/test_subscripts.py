"""Index expressions and arrays of indices: they read the elements that NumPy reads.

Tests: impl.ops._index_arrays.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl.ops import _index_arrays, _subscripts

X = np.arange(120).reshape(2, 3, 4, 5)
ROW, COLUMN = np.array([0, 2, -1]), np.array([[1], [0]])
MASK = np.array([True, False, True])


def read(expression, input):
    sliced = expression.sliced(jnp.asarray(input))
    if expression.index is None:
        return sliced
    index = expression.index
    assert sliced.shape == index.shape
    rows = index.fold(sliced)[:, index.flat[0, :, 0]]
    return rows.reshape(index.result_shape)


@pytest.mark.parametrize(
    "indices",
    [
        0,
        -1,
        (1, slice(None), 2),
        (slice(0, 2), slice(None, None, 2)),
        (slice(5, 1),),
        (..., 0),
        (0, ..., 1),
        (None, 0, None),
        (slice(None), ROW),
        (slice(None), ROW, COLUMN),
        (slice(None), ROW, slice(None), COLUMN),
        (0, ROW, ..., COLUMN),
        (slice(None), MASK),
        (np.ones((2, 3), bool),),
        (True, 0),
        (False,),
        (np.array(1), slice(None), np.array(2)),
        (slice(None), [0, 1], [2, 3]),
        ([0, 1], None, ..., [2, 2]),
    ],
    ids=repr,
)
def test_they_read_as_numpy_does(indices):
    expression = _subscripts.subscript("op", X.shape, indices)
    expected = X[indices]
    assert read(expression, X).shape == expected.shape
    np.testing.assert_array_equal(read(expression, X), expected)


def test_a_list_is_read_as_pytorch_reads_it():
    as_array = _subscripts.subscript("op", X.shape, [0, 1])
    np.testing.assert_array_equal(read(as_array, X), X[np.array([0, 1])])
    as_tuple = _subscripts.subscript("op", X.shape, [ROW[:1], slice(None)])
    np.testing.assert_array_equal(read(as_tuple, X), X[ROW[:1], :])


@pytest.mark.parametrize(
    ("indices", "has_arrays", "unique"),
    [(0, False, True), (slice(1, 2), False, True), ((0, ROW), True, False), (MASK[:2], True, True)],
    ids=repr,
)
def test_elements_that_may_be_read_twice(indices, has_arrays, unique):
    expression = _subscripts.subscript("op", X.shape, indices)
    assert (expression.has_arrays, expression.unique) == (has_arrays, unique)


def test_a_traced_number_is_an_index_that_is_unique():
    def function(i):
        expression = _subscripts.subscript("op", X.shape, (slice(None), i))
        assert (expression.has_arrays, expression.unique) == (False, True)
        return read(expression, X)

    np.testing.assert_array_equal(jax.jit(function)(-1), X[:, -1])


def test_one_array_for_each_leading_dimension():
    index, unique = _subscripts.arrays_alone("op", X.shape, [None, ROW])
    assert (index.axes, index.result_shape, unique) == ((1,), (2, 3, 4, 5), False)
    np.testing.assert_array_equal(index.unfold(index.fold(jnp.asarray(X))), X)
    values = jnp.ones((1, 5))
    assert index.spread(values).shape == (2, 3, 20)


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        (2, IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        ((0,) * 5, IndexError, r"too many indices for an array of dimension 4 \(got 5\)"),
        ((ROW, COLUMN, np.arange(4)), IndexError, "out of bounds|could not be broadcast"),
        (1.5, IndexError, "'indices' is of type float; allowed are ints"),
        (MASK, IndexError, "shape of the mask"),
        (slice(None, None, -1), ValueError, "a slice of step -1"),
        (slice("a"), TypeError, "its parts must be ints"),
        (([[0], [0, 1]],), ValueError, "'indices.*' is not an array"),
    ],
    ids=repr,
)
def test_errors(indices, error, message):
    with pytest.raises(error, match=message):
        _subscripts.subscript("op", X.shape, indices)


def test_a_traced_index_out_of_range_points_past_the_end():
    def flat(i):
        entries = [_index_arrays.AxisIndex(0, i), _index_arrays.AxisIndex(1, jnp.array([1]))]
        return _index_arrays.flat_index("op", (2, 3), entries).flat

    assert jax.jit(flat)(np.array([0, -1, 5])).reshape(-1).tolist() == [1, 4, 6]
