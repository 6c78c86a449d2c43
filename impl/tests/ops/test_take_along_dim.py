"""take_along_dim: values, bits of its gradient, bad arguments, indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import COLUMN, POINT, SCALAR, M, V, at
from impl.tests.ops._indices import (
    MANY,
    MANY_WRAPPED,
    WIDE,
    X,
    along_the_second,
    assert_reads_out_of_range_are_filled,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.sums import in_order
from impl.tests.support.values import assert_reference_is_pytorch, compute

complete = pytest.mark.usefixtures("complete")


def reference(x, index, dim=None):
    if dim is None:
        return x.reshape(-1)[index.reshape(-1)]
    lengths = [1 if axis == dim % x.ndim else n for axis, n in enumerate(x.shape)]
    shape = list(np.broadcast_shapes(lengths, index.shape))
    full = list(shape)
    full[dim] = x.shape[dim]
    return np.take_along_axis(np.broadcast_to(x, full), np.broadcast_to(index, shape), dim)


def cases():
    rng = np.random.default_rng(0)
    for dim, length in [(0, 7), (1, 1), (-2, 7), (-1, 7)]:
        size = X.shape[dim]
        shape = list(X.shape)
        shape[dim] = length
        # An index that is broadcast along some dimensions.
        for stays in ([0, 1, 2, 3], [dim % 4], [dim % 4, 3]):
            lengths = [n if axis in stays else 1 for axis, n in enumerate(shape)]
            index = rng.integers(-size, size, lengths)
            yield f"dim {dim}, index of {lengths}", ((X, index, dim), {})
    index = rng.integers(-3, 3, (2, 7, 1, 1))
    yield "an input that is broadcast", ((X[:1], index, -3), {})
    yield "all elements", ((X, abs(rng.integers(-120, 120, (3, 4)))), {})


@complete
def test_values():
    calls = dict(cases())
    for name, got in compute(impl.take_along_dim, calls).items():
        assert_same_bits(got, reference(*calls[name][0]), name)


def test_the_mode_off():
    index = np.random.default_rng(0).integers(-5, 5, (2, 3, 4, 7))
    got = jax.jit(lambda x: impl.take_along_dim(x, index, -1))(X)
    assert_same_bits(got, reference(X, index, -1))


def test_the_reference_is_pytorch(torch):
    assert_reference_is_pytorch(torch, torch.take_along_dim, reference, dict(cases()))


@complete
def test_an_input_that_is_repeated():
    rng, calls, wanted = np.random.default_rng(0), {}, {}
    for shape, dim in [((2, 1, 4, 1), 2), ((1, 3, 1, 5), 1), ((1, 1, 1, 1), 0)]:
        x = rng.integers(-9, 9, shape).astype(np.float32)
        index = rng.integers(-shape[dim], shape[dim], (2, 3, 4, 5))
        weight = rng.integers(-9, 9, index.shape).astype(np.float32)

        def both(x, w, i=index, d=dim):
            out, pullback = jax.vjp(lambda x: impl.take_along_dim(x, i, d), x)
            return out, pullback(w)[0]

        lengths = [2, 3, 4, 5]
        lengths[dim] = shape[dim]
        gradient = np.zeros(lengths, np.float32)
        grid = list(np.indices(index.shape))
        grid[dim] = index
        np.add.at(gradient, tuple(grid), weight)
        axes = tuple(axis for axis in range(4) if axis != dim and shape[axis] == 1)
        calls[str(shape)] = both, x, weight
        wanted[str(shape)] = reference(x, index, dim), gradient.sum(axes, keepdims=True)
    for name, (out, gradient) in run_together(calls).items():
        assert_same_bits(out, wanted[name][0], name)
        np.testing.assert_array_equal(gradient, wanted[name][1], err_msg=name)


@complete
def test_numbers_and_empty_arrays():
    index = np.array([[0, 119], [7, 7]])
    assert impl.take_along_dim(X, index).tolist() == [0, 119, 7, 7]
    assert impl.take_along_dim(np.float32(3), np.array(0)).tolist() == [3]
    assert impl.take_along_dim(X, index[:0]).shape == (0,)
    assert impl.take_along_dim(X[:0], np.zeros((1, 3, 1, 5), int), 2).shape == (0, 3, 1, 5)
    assert impl.take_along_dim(X, np.zeros((2, 3, 0, 1), int), 2).shape == (2, 3, 0, 5)


@complete
def test_dtypes():
    index = np.array([[2], [0], [-1]])
    dtypes = [np.float16, jnp.bfloat16, np.int8, np.uint32, bool, np.complex64]
    arrays = {d.__name__: (np.arange(6).reshape(3, 2) % 4).astype(d) for d in dtypes}
    take = lambda x: impl.take_along_dim(x, index, 0)  # noqa: E731
    for name, got in run_together({name: (take, x) for name, x in arrays.items()}).items():
        assert_same_bits(got, arrays[name][index[:, 0]], name)


def test_x64():
    x, index = np.random.default_rng(0).standard_normal((4, 3)), np.array([[3], [-4], [3]])
    with jax.enable_x64(True):
        got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(x, index)
        assert_same_bits(got, x[index[:, 0]])


@complete
@pytest.mark.usefixtures("lowering")
def test_bits_of_the_gradient():
    rng = np.random.default_rng(0)
    columns, weight = np.zeros((2, 3, 2), np.float32), spread(rng, (2, len(MANY), 2))
    # Rounded once, in row-major order of all reads: not a sum of the sums of each repetition.
    repeated, index = np.zeros((1, 3, 1), jnp.bfloat16), MANY.reshape(2, 110, 5)
    narrow = spread(rng, index.shape, jnp.bfloat16)

    def gradient(x, i, w):
        return jax.vjp(lambda x: impl.take_along_dim(x, i, 1), x)[1](w)[0]

    results = run_together(
        {
            "columns": (gradient, columns, MANY[None, :, None], weight),
            "repeated": (gradient, repeated, index, narrow),
        }
    )
    want = along_the_second(in_order, columns, MANY_WRAPPED, weight)
    assert_same_bits(results["columns"], want)
    want = in_order(repeated[0, :, 0], MANY_WRAPPED, narrow.reshape(-1))
    assert_same_bits(results["repeated"], want.reshape(repeated.shape))


CALLS: list[Call] = [
    ("take_along_dim", (M, COLUMN, 2), {}, IndexError, "but got 2"),
    ("take_along_dim", (M, COLUMN, 1.0), {}, TypeError, "'dim' must be int, not float"),
    ("take_along_dim", (SCALAR, POINT, 0), {}, IndexError, "Dimension specified as 0"),
    ("take_along_dim", (M, at(0), 0), {}, RuntimeError, "same number of dimensions, but got 2"),
    ("take_along_dim", (M, COLUMN[:2], 1), {}, RuntimeError, "(2) at non-singleton dimension 0"),
    ("take_along_dim", (V, at(3)), {}, RuntimeError, "index 3 is out of bounds for an input of 3"),
    ("take_along_dim", (V, at(-1)), {}, RuntimeError, "allowed are 0 to 2"),
    ("take_along_dim", (V, at(0.0)), {}, RuntimeError, "int32/int64 for indices but got: float64"),
    ("take_along_dim", (V, [0]), {}, TypeError, "'indices' must be"),
]
UNLIKE_TORCH: list[Call] = [
    # On a CPU, PyTorch takes these indices modulo the size.
    ("take_along_dim", (M, COLUMN + 2, 1), {}, RuntimeError, "index 2 is out of bounds"),
    ("take_along_dim", (M, COLUMN - 3, 1), {}, RuntimeError, "allowed are -2 to 1"),
]


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH


@pytest.mark.usefixtures("path")
def test_reads_out_of_range_give_the_fill_value_and_no_gradient():
    assert_reads_out_of_range_are_filled(
        [
            lambda x, index: impl.take_along_dim(x, index[:, None], 0),
            lambda x, index: impl.take_along_dim(x.T[None], index[None, None], -1)[0].T,
        ]
    )


def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(np.zeros(3), WIDE)
        assert np.isnan(got).tolist() == [True, False, True, True]


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(V[:0], at(0, -1))
    assert np.isnan(got).tolist() == [True, True]
