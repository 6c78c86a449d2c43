"""Pools of maxima, and max_unpool.

Tests: impl.nn.functional._maxima, impl.nn.functional._max_pools.
"""

import functools

import jax
import numpy as np
import pytest

import impl
from impl.nn.functional import _maxima, _windows
from impl.tests.nn.support.arrays import normal, ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import Call, bad_arguments

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


def with_ties(shape):
    """Returns an array in which many elements are equal."""
    return np.random.default_rng(shape).integers(0, 6, shape).astype(np.float32)


def test_equal_elements_and_nan():
    nan = np.nan
    x = np.array([[-0.0, 0.0, 0.0, -0.0, 1, nan, nan, 1, -np.inf, -np.inf]], np.float32)
    out, indices = F.max_pool1d(x, 2, return_indices=True)
    assert_same_bits(out, np.array([[-0.0, 0.0, nan, nan, -np.inf]], np.float32))
    assert indices.tolist() == [[0, 2, 5, 6, 8]]
    gradient = jax.jit(jax.grad(lambda x: F.max_pool1d(x, 2).sum()))(x)
    assert gradient.tolist() == [[1, 0, 1, 0, 0, 1, 1, 0, 1, 0]]
    # The first in row-major order is taken, although columns are pooled before rows.
    plane = np.array([[[0, 1, nan], [1, 0, nan], [nan, 1, 0]]], np.float32)
    assert F.max_pool2d(plane, 2, 1, return_indices=True)[1].tolist() == [[[1, 2], [6, 5]]]


NAMES = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


@pytest.mark.parametrize(
    ("sizes", "arguments"),
    [
        ((9,), (3, 2, 1)),
        ((7, 8), ((3, 2), (1, 2), (1, 0))),
        ((2, 3), (2, (1, 2), 1, (3, 1))),
        ((4, 5), (3, 2, 1, 1, True)),
        ((3, 4, 5), (2, 1, (0, 1, 1), (2, 1, 1))),
    ],
)
def test_a_gradient_by_taps_is_a_gradient_by_positions(sizes, arguments):
    windows = _windows.Windows.of(
        "f",
        len(sizes),
        **dict(zip(NAMES, arguments, strict=False)),
    )
    spans = windows.spans(windows.outputs("f", sizes))
    x, tangent = with_ties((2, *sizes)), normal((2, *sizes))

    @jax.jit
    def run(x, tangent):
        position = _maxima.greatest(x, spans)[1]
        reads = (
            functools.partial(_maxima._read_by_taps, spans=spans),
            functools.partial(_maxima._read, has_empty=True),
        )
        functions = [functools.partial(read, position=position) for read in reads]
        return [(f(tangent), jax.vjp(f, tangent)[1](f(tangent))[0]) for f in functions]

    by_taps, by_position = run(x, tangent)
    assert_same_bits(by_taps[0], by_position[0])
    np.testing.assert_allclose(by_taps[1], by_position[1], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_the_padding_is_no_maximum_of_the_least_values(dtype):
    lowest = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
    x = np.full((1, 4, 5), lowest, dtype)
    out, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert_same_bits(out, np.full((1, 2, 3), lowest, dtype))
    assert indices.tolist() == [[[0, 1, 3], [5, 6, 8]]]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_max_pool2d_of_a_window_that_reads_no_element(dtype):
    x = np.ones((1, 2, 3), dtype)
    out, indices = F.max_pool2d(x, 2, (1, 2), 1, (3, 1), return_indices=True)
    lowest = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
    assert_same_bits(out, np.full((1, 1, 2), lowest, dtype))
    assert indices.tolist() == [[[-1, -1]]]
    if dtype == np.float32:
        gradient = jax.jit(jax.grad(lambda x: F.max_pool2d(x, 2, (1, 2), 1, (3, 1)).sum()))(x)
        assert_same_bits(gradient, np.zeros_like(x))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_max_pool1d_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max, 5, 7, limits.min, limits.min]], dtype)
    out, indices = F.max_pool1d(x, 2, return_indices=True)
    assert_same_bits(out, np.array([[limits.max, 7, limits.min]], dtype))
    assert indices.tolist() == [[1, 3, 4]]
    # A CPU reads long windows as a whole.
    out, indices = F.max_pool1d(np.resize(x, (1, 70)), 70, return_indices=True)
    assert (out.tolist(), indices.tolist()) == ([[limits.max]], [[1]])


def with_a_key(function):
    """Returns the op with a key for samples, if a call states neither."""

    def call(*arguments, **options):
        if len(arguments) < 6:
            options.setdefault("key", jax.random.key(0))
        return function(*arguments, **options)

    return call


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
U = ones(1, 3, 2) / 2
#: op, positional arguments, keywords, exception, fragment of the message. ``test_pooling`` has the
#: calls that pools of means refuse too.
BAD: list[Call] = [
    ("max_pool2d", (ones(0, 6, 6), 2), RuntimeError, "non-zero size"),
    ("max_pool2d", (HW, 2, 1, 2, 3), RuntimeError, "at most half of kernel_size"),
    ("max_pool2d", (HW, 2, 1, 0, 0), RuntimeError, "dilation should be greater than zero"),
    ("max_pool3d", (DHW, 2, 1, 0, -1), RuntimeError, "but got [-1, -1, -1]"),
    ("max_pool2d", (HW, 2, 1, 0, (5, 6)), RuntimeError, "gives an output of size 1x0"),
    ("max_pool2d", (HW, 2, 2, 0, (1, 1, 1)), RuntimeError, "'dilation' must be an int or 2"),
    ("max_pool2d", (HW, 2, 2, 0, 1.5), TypeError, "'dilation' must be int, not float"),
    ("adaptive_max_pool1d", ([[1.0]], 1), TypeError, "'input' must be"),
    ("fractional_max_pool2d", (ones(1, 2, 3, 6, 6), 2, 3), RuntimeError, "3 or 4 (batch mode)"),
    ("fractional_max_pool2d", (ones(2, 0, 6, 6), 2, 3), RuntimeError, "non-zero size"),
    ("fractional_max_pool3d", (ones(0, 6, 0, 6), 2, 3), RuntimeError, "non-zero size"),
    ("fractional_max_pool2d", (HW, 2), ValueError, "output_ratio, but got neither"),
    ("fractional_max_pool3d", (DHW, 2, -1), RuntimeError, "equal to 0, but got [-1, -1, -1]"),
    ("fractional_max_pool2d", (HW, 2, 6), RuntimeError, "be at most the input's size and 1"),
    ("fractional_max_pool3d", (DHW, 2, 5), RuntimeError, "at most the input's size"),
    ("fractional_max_pool2d", (HW, (2, 7), 1), RuntimeError, "kernel_size [2, 7] is too large"),
    ("fractional_max_pool2d", (HW, (2,), 3), RuntimeError, "'kernel_size' must be an int or 2"),
    ("fractional_max_pool3d", (DHW, (2, 2), 3), RuntimeError, "an int or 3 of them"),
    ("fractional_max_pool2d", (HW, 2, (3, 3, 3)), RuntimeError, "'output_size' must be an int"),
    ("fractional_max_pool2d", (HW, 2.0, 3), TypeError, "'kernel_size' must be int, not float"),
    ("fractional_max_pool2d", (HW, 2, "3"), TypeError, "'output_size' must be int, not str"),
    (
        "fractional_max_pool2d",
        (HW, 2),
        {"output_ratio": (0.5, 0.5, 0.5)},
        ValueError,
        "a number or 2 of them",
    ),
    ("fractional_max_pool2d", (HW.astype(int), 2, 3), NotImplementedError, "for int"),
    *(
        ("fractional_max_pool2d", (HW, 2, 3, None, False, samples), RuntimeError, fragment)
        for samples, fragment in [
            (ones(1, 3, 3), "of shape [1 or more, 3, 2], but got [1, 3, 3]"),
            (ones(1, 2, 2), "but got [1, 2, 2]"),
            (ones(3, 2), "but got [3, 2]"),
            (ones(0, 3, 2), "but got [0, 3, 2]"),
            (ones(1, 3, 2, dtype=np.float16), "the dtype of input, float32, but got float16"),
        ]
    ),
    ("fractional_max_pool2d", (HW, 2, 3, None, False, [0.5]), TypeError, "'_random_samples'"),
]  # fmt: skip
#: Arguments that PyTorch accepts, or that only impl has.
BAD_HERE: list[Call] = [
    ("max_pool1d", (L, 2), {"return_indices": 1}, TypeError, "'return_indices' must be bool"),
    ("adaptive_max_pool1d", (L, 2, 1), TypeError, "'return_indices' must be bool"),
    ("fractional_max_pool2d", (HW[0], 2, 3), RuntimeError, "got shape [6, 6]"),
    ("fractional_max_pool2d", (HW, 0, 3), RuntimeError, "kernel_size should be greater than"),
    ("fractional_max_pool2d", (HW, 2, 3, 0.5), ValueError, "output_ratio, but got both"),
    ("fractional_max_pool2d", (HW, 2, 3, None, 1), TypeError, "'return_indices' must be bool"),
    ("fractional_max_pool3d", (DHW, 2, 3), {"key": None}, ValueError, "no hidden random state"),
    (
        "fractional_max_pool2d",
        (HW, 2, 3),
        {"key": np.zeros(2, np.uint32), "_random_samples": U},
        ValueError,
        "got both",
    ),
    *(
        ("fractional_max_pool2d", (HW, 2), {"output_ratio": ratio}, ValueError, "between 0 and 1")
        for ratio in (0, 1, 1.5, -0.5, (0.5, 0.0), float("nan"))
    ),
    ("fractional_max_pool3d", (DHW, 2), {"output_ratio": "1"}, TypeError, "number or 3 of them"),
    ("fractional_max_pool2d", (HW, 2), {"output_ratio": True}, TypeError, "not bool"),
]  # fmt: skip
WITH_A_KEY = {
    f"fractional_max_pool{dims}d": with_a_key(getattr(F, f"fractional_max_pool{dims}d"))
    for dims in (2, 3)
}
TestBadArguments = bad_arguments(BAD, BAD_HERE, functions=WITH_A_KEY)


def test_forms_of_the_arguments_of_max_pool2d():
    x = normal((3, 6, 6))
    want = F.max_pool2d(x, (2, 2), (2, 2), (0, 0), (1, 1))
    for arguments in [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0], [1]), (np.int64(2), None)]:
        assert_same_bits(F.max_pool2d(x, *arguments), want)


@pytest.mark.once
def test_the_first_of_equals_in_a_long_window():
    # A CPU reads long windows as a whole.
    x = np.random.default_rng(0).integers(-1, 2, (2, 23, 30)).astype(np.float32)
    x[0, :, 5], x[1, ::4], x[x == 0] = np.nan, -0.0, 0.0
    values, indices = F.adaptive_max_pool2d(x, (2, 3), return_indices=True)
    for lane, row, column in np.ndindex(values.shape):
        rows, columns = (
            slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in ((row, 23, 2), (column, 30, 3))
        )
        window = x[lane, rows, columns]
        first = np.isnan(window).argmax() if np.isnan(window).any() else window.argmax()
        at = np.unravel_index(first, window.shape)
        assert indices[lane, row, column] == (at[0] + rows.start) * 30 + at[1] + columns.start


def test_fractional_max_pool2d_draws_samples_from_a_key():
    x, key = normal((2, 3, 9, 8)), jax.random.key(7)
    samples = jax.random.uniform(key, (6, 2)).reshape(2, 3, 2)
    given = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, _random_samples=samples))
    drawn = jax.jit(lambda x, key: F.fractional_max_pool2d(x, 3, 4, key=key))
    want = given(x, samples)
    assert_same_bits(drawn(x, key), want)
    assert (drawn(x, jax.random.key(8)) != want).any()
    with pytest.raises(ValueError, match=r"shape \[1, 3, 2\]; got neither"):
        F.fractional_max_pool2d(x[0], 3, 4)


def test_invalid_samples_of_fractional_max_pool2d_read_nothing_outside_the_input():
    x = with_ties((2, 1, 9, 8))
    op = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, None, True, samples))
    for sample in (np.nan, -3.5, 7.0, np.inf, 1e30):
        out, indices = op(x, np.full((2, 1, 2), sample, np.float32))
        indices = np.asarray(indices).reshape(2, -1)
        assert indices.min() >= 0
        assert indices.max() < 72
        assert_same_bits(np.take_along_axis(x.reshape(2, -1), indices, 1), out.reshape(2, -1))


def test_vmap_over_the_samples_of_fractional_max_pool2d_keeps_the_bits():
    x, samples = normal((1, 2, 7, 6)), np.random.default_rng(0).random((3, 1, 2, 2), np.float32)

    def op(samples):
        return F.fractional_max_pool2d(x, 3, (4, 3), _random_samples=samples)

    assert_same_bits(jax.jit(jax.vmap(op))(samples), np.stack(list(map(op, samples))))


def test_the_last_write_stays_and_has_the_gradient():
    x, indices = normal((2, 4)), np.array([[0, 3, 3, 7], [1, 1, 1, 1]])
    out, pullback = jax.vjp(lambda x: F.max_unpool1d(x, indices, 2), x)
    want = np.zeros((2, 8), np.float32)
    want[0, [0, 3, 7]], want[1, 1] = x[0, [0, 2, 3]], x[1, 3]
    assert_same_bits(out, want)
    gradient = pullback(np.full_like(want, 3))[0]
    assert gradient.tolist() == [[3, 0, 3, 3], [0, 0, 0, 3]]


OUT_OF_RANGE = np.array([[[3, -1, 0, 8], [12, 3, 2**31 - 1, -(2**31)]]], np.int32)
X = normal((1, 2, 4))


@pytest.mark.usefixtures("path")
def test_max_unpool1d_drops_writes_out_of_range_under_jit():
    @jax.jit
    def run(x, indices):
        return (
            F.max_unpool1d(x, indices, 2),
            jax.grad(lambda x: (F.max_unpool1d(x, indices, 2) * 3).sum())(x),
        )

    want = np.zeros((1, 2, 8), np.float32)
    want[0, 0, [3, 0]], want[0, 1, 3] = X[0, 0, [0, 2]], X[0, 1, 1]
    out, gradient = run(X, OUT_OF_RANGE)
    assert_same_bits(out, want)
    assert gradient.tolist() == [[[3, 0, 3, 0], [0, 3, 0, 0]]]


def test_the_gradient_of_max_unpool1d_raises_without_its_forward_pass():
    # The compiler removes the forward pass, because the gradient does not need its result.
    gradient = jax.jit(jax.grad(lambda x, i: F.max_unpool1d(x, i, 2).sum()))
    with impl.deterministic(profile="torch-2.12"), pytest.raises(RuntimeError, match="max_unpool"):
        gradient(X, np.zeros(X.shape, np.int32))


I = np.zeros(X.shape, np.int64)  # noqa: E741
PLANE, VOLUME = X.reshape(1, 2, 2, 2), X.reshape(1, 1, 2, 2, 2)
P, Q = I.reshape(PLANE.shape), I.reshape(VOLUME.shape)

#: op, positional arguments, exception, fragment of the message
BAD_OF_UNPOOL: list[Call] = [
    ("max_unpool1d", (X, I + 8, 2), RuntimeError, "index 8 is out of bounds for a result of size"),
    ("max_unpool1d", (X, I - 1, 2), RuntimeError, "position [0, 0, 0] of argument 'indices'"),
    ("max_unpool2d", (PLANE, P + 16, 2), RuntimeError, "a result of size 4x4"),
    ("max_unpool3d", (VOLUME, Q + 64, 2), RuntimeError, "a result of size 4x4x4"),
    ("max_unpool1d", (X, I.astype(np.int16), 2), RuntimeError, "for indices but got: int16"),
    ("max_unpool1d", (X, X, 2), RuntimeError, "for indices but got: float32"),
    ("max_unpool1d", (X.astype(int), I, 2), NotImplementedError, "int32 in argument 'input'"),
    ("max_unpool2d", (PLANE.astype(bool), P, 2), NotImplementedError, "bool in argument 'input'"),
    ("max_unpool1d", (X[None], I[None], 2), RuntimeError, "got shape [1, 1, 2, 4]"),
    ("max_unpool2d", (PLANE[0, 0], P[0, 0], 2), RuntimeError, "3d or 4d array"),
    ("max_unpool3d", (VOLUME[0, 0], Q[0, 0], 2), RuntimeError, "4d or 5d array"),
    ("max_unpool1d", (X, I[:, :, 1:], 2), RuntimeError, "([1, 2, 4]) but got indices with shape"),
    ("max_unpool1d", (X[:, :0], I[:, :0], 2), RuntimeError, "non-batch dimensions"),
    ("max_unpool3d", (VOLUME, Q, 2, 0), RuntimeError, "strides should be greater than zero"),
    ("max_unpool2d", (PLANE, P, (2,)), RuntimeError, "must be an int or 2 of them, but got 1"),
    ("max_unpool1d", (X, I, 2.0), TypeError, "'kernel_size' must be int, not float"),
    ("max_unpool1d", (X, I, None), TypeError, "'kernel_size' must be int, not NoneType"),
    ("max_unpool1d", (X, I, "2"), TypeError, "'kernel_size' must be int, not str"),
    ("max_unpool1d", (X, I, 2, 2, 0, 9), TypeError, "'output_size' must be a tuple of ints"),
    ("max_unpool1d", (X, I, 2, 2, 0, (9.0,)), TypeError, "'output_size[0]' must be int"),
    ("max_unpool1d", (X, I, 2, 2, 0, (10,)), ValueError, "must be between 6 and 10"),
    ("max_unpool1d", (X, I, 2, 2, 0, (6,)), ValueError, 'invalid output_size "(6,)"'),
    ("max_unpool2d", (PLANE, P, 2, 2, 0, (4, 6)), ValueError, "(dim 1 must be between 2 and 6)"),
    ("max_unpool1d", (X, I, 2, 2, 0, (1, 8)), ValueError, "containing 1 or 3 elements"),
    ("max_unpool1d", (X, I, 2, 2, 10), ValueError, "non-negative spatial dimensions"),
]

#: Arguments for which PyTorch does something else.
OWN: list[Call] = [
    ("max_unpool1d", ([1.0], I, 2), TypeError, "'input' must be"),
    ("max_unpool1d", (X, [0], 2), TypeError, "'indices' must be"),
    ("max_unpool1d", (X, I, 8, 0), RuntimeError, "strides should be greater than zero"),
    ("max_unpool1d", (X, I, 2, (2, 2)), RuntimeError, "'stride' must be an int or 1 of them"),
]
TestBadArgumentsOfUnpool = bad_arguments(BAD_OF_UNPOOL, OWN)


def test_unique_indices_of_max_unpool1d_must_be_a_bool():
    with pytest.raises(TypeError, match="'unique_indices' must be bool"):
        F.max_unpool1d(X, I, 2, unique_indices=1)
    indices = np.arange(8).reshape(X.shape)
    got = F.max_unpool1d(X, indices, 2, unique_indices=True)
    assert_same_bits(got, F.max_unpool1d(X, indices, 2))
