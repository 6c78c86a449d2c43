"""Bad arguments of getitem, and indices that are out of range or not known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import SCALAR, TALL, M, V, at, ones
from impl.tests.ops._indices import (
    IN_RANGE,
    INDEX,
    SIZE,
    WIDE,
    WRAPPED,
    assert_reads_out_of_range_are_filled,
)
from impl.tests.support.refusals import BadArguments, Call

CALLS: list[Call] = [
    ("getitem", (M, 3), {}, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ("getitem", (M, -4), {}, IndexError, "index -4 is out of bounds"),
    ("getitem", (M, (0, 2)), {}, IndexError, "for dimension 1 with size 2"),
    ("getitem", (M, at(0, 3)), {}, IndexError, "at position [1] of argument 'indices'"),
    ("getitem", (M, (at(0), at(-3))), {}, IndexError, "of argument 'indices[1]'; allowed are -2"),
    ("getitem", (M, (0, 0, 0)), {}, IndexError, "array of dimension 2 (got 3)"),
    ("getitem", (M, (0, M > 0)), {}, IndexError, "(got 3)"),
    ("getitem", (SCALAR, slice(None)), {}, IndexError, "array of dimension 0"),
    ("getitem", (SCALAR, 0), {}, IndexError, "0"),
    ("getitem", (M, 1.0), {}, IndexError, "of type float; allowed are ints"),
    ("getitem", (M, {0}), {}, IndexError, "of type set"),
    ("getitem", (M, at(1.0)), {}, IndexError, "of float64; allowed are"),
    ("getitem", (M, np.float32(1)), {}, IndexError, "float32"),
    ("getitem", (M, np.zeros(1, np.int16)), {}, IndexError, "int16"),
    ("getitem", (M, ones(1, dtype=np.complex64)), {}, IndexError, "complex64"),
    ("getitem", (M, (at(0, 1), at(0, 1, 1))), {}, IndexError, "with shapes [2], [3]"),
    ("getitem", (M, TALL), {}, IndexError, "mask [4] does not match"),
    ("getitem", (M, (slice(None), M > 0)), {}, IndexError, "(got 3)"),
    ("getitem", (M[:0], at(0)), {}, IndexError, "none is allowed"),
    ("getitem", (M, slice(None, None, -1)), {}, ValueError, "greater than zero"),
    ("getitem", (M, slice(None, None, 0)), {}, ValueError, "zero"),
    ("getitem", (M, slice(0.5, 1)), {}, TypeError, "slice(0.5, 1, None)"),
    ("getitem", (M, ([[0, 1], [1]], 0)), {}, ValueError, "indices[0]"),
]
UNLIKE_TORCH: list[Call] = [
    # PyTorch takes numbers of a list for ints.
    ("getitem", (M, [0.5]), {}, IndexError, "float64"),
    ("getitem", (M, "a"), {}, IndexError, "str"),
    # No element is read, so PyTorch does not check the index.
    ("getitem", (M[:0], (slice(None), at(2))), {}, IndexError, "dimension 1 with size 2"),
]
TORCH_FUNCTIONS = {"getitem": lambda x, indices: x[indices]}


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH
    torch_functions = TORCH_FUNCTIONS


def test_known_indices_are_checked_under_jit_too():
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.getitem(x, at(3)))(V)
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        jax.jit(lambda x: impl.getitem(x, -4))(V)


def test_a_shape_that_depends_on_values_is_refused_under_jit():
    masked = jax.jit(impl.getitem)
    with pytest.raises(TypeError, match=r"mask whose values are not known under jit.*nonzero"):
        masked(V, V > 0)
    with pytest.raises(TypeError, match="not known under jit"):
        masked(V, np.array(True))
    with pytest.raises(TypeError, match="parts must be ints that are known"):
        jax.jit(lambda x, i: impl.getitem(x, slice(i, None)))(V, 1)


def test_more_elements_than_an_index_counts():
    big = jax.ShapeDtypeStruct((2**16, 2**16), np.int8)
    index = jax.ShapeDtypeStruct((2,), np.int32)
    call = lambda x, i: impl.getitem(x, (i, i))  # noqa: E731
    with pytest.raises(NotImplementedError, match="cannot count 4294967296 elements"):
        jax.eval_shape(call, big, index)
    with jax.enable_x64(True):
        assert jax.eval_shape(call, big, index).shape == (2,)
    # An index of rows counts rows, not elements.
    assert jax.eval_shape(impl.getitem, big, index).shape == (2, 2**16)


@pytest.mark.usefixtures("path")
def test_reads_out_of_range_give_the_fill_value_and_no_gradient():
    # The same rows by every kind of expression.
    assert_reads_out_of_range_are_filled(
        [
            impl.getitem,
            lambda x, index: impl.getitem(x.T, (slice(None), index)).T,
            lambda x, index: impl.getitem(x, (index[:, None], jnp.arange(2))),
            lambda x, index: impl.getitem(x, (index[:, None], slice(None), None))[:, 0, :, 0],
        ]
    )


def test_a_traced_int_reads_as_an_array_does():
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    for index, in_range, wrapped in zip(INDEX, IN_RANGE, WRAPPED, strict=True):
        want = x[:, wrapped] if in_range else np.full(2, np.nan)
        np.testing.assert_array_equal(read(x, index), want)


def test_traced_ints_of_other_dtypes_and_in_lists():
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    np.testing.assert_array_equal(read(x, np.int8(-2)), x[:, -2])
    with pytest.raises(IndexError, match="of uint32"):
        read(x, np.uint32(1))
    listed = jax.jit(lambda x, i: impl.getitem(x, (slice(None), [i, 1, -i])))
    np.testing.assert_array_equal(listed(x, 2), x[:, [2, 1, -2]])
    np.testing.assert_array_equal(jax.jit(lambda x, i: impl.getitem(x, [i, i]))(x, 1), x[1, 1])


def test_two_indices_out_of_range_do_not_make_one_in_range():
    # Flattened without a check, (1, -4) of [3, 3] would be (0, 0), and (0, 3) would be (1, 0).
    pairs = np.array([[1, -4], [0, 3], [3, 0], [-4, 1], [2, 2]])
    got = jax.jit(lambda x, i, j: impl.getitem(x, (i, j)))(ones(3, 3), *pairs.T)
    assert np.isnan(got).tolist() == [True, True, True, True, False]


def test_a_wide_index_is_not_narrowed_first():
    @jax.jit
    def reads(x, i):
        return impl.getitem(x, i), impl.getitem(x[:, None], (i, i * 0))

    with jax.enable_x64(True):
        for got in reads(np.zeros(3), WIDE):
            assert np.isnan(got).tolist() == [True, False, True, True]
    with pytest.raises(IndexError, match="index 4294967297 is out of bounds"):
        impl.getitem(V, WIDE)


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    assert np.isnan(jax.jit(impl.getitem)(V[:0], at(0, -1))).tolist() == [True, True]
