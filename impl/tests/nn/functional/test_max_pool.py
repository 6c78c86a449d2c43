"""max_pool1d, max_pool2d and max_pool3d; ``test_pooling`` has the properties of all pools.

Tests: impl._lowerings.windows.stores, impl._lowerings.windows.argmax,
impl._lowerings.windows.cpu_even, impl._lowerings.windows.cpu_phases,
impl._lowerings.windows.maxima, impl._lowerings.windows.picks.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support import window_sums
from impl.tests.nn.support.arrays import normal, ones
from impl.tests.nn.support.maxima import (
    assert_as_references,
    pooled,
    with_ties,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


def reference(dims, x, kernel, stride=None, padding=0, dilation=1, ceil=False):
    """Returns the reference of a call; None if the input is too small."""
    kernels, pads, distances, strides = (
        window_sums.of_each_dimension(value, dims)
        for value in (kernel, padding, dilation, kernel if stride is None else stride)
    )
    windows = [
        window_sums.fixed(n, k, s, p, ceil, d)
        for n, k, s, p, d in zip(x.shape[-dims:], kernels, strides, pads, distances, strict=True)
    ]
    return pooled(x, windows) if all(windows) else None


def test_every_algorithm_of_max_pool1d_finds_the_first_of_the_greatest():
    # Long windows have other algorithms than short ones.
    x = with_ties((2, 3, 70))
    x[0, 0, 5:60] = -np.inf
    x[1, ::2, ::9] = np.nan
    x[1, 1, 30:] = np.where(np.arange(40) % 3, -0.0, 0.0)
    arguments = [(17, 1, 8), (40, 3, 20, 2, True), (23, 23), (70,), (20, 60, 9, 3)]
    calls = [lambda x, rest=rest: F.max_pool1d(x, *rest, return_indices=True) for rest in arguments]
    # The pooled dimension is also tested in front of another dimension.
    of_plane = [*zip(arguments[1], (1, 1, 0, 1), strict=False), True]

    def along_columns(x):
        out, indices = F.max_pool2d(x[..., None], *of_plane, return_indices=True)
        return out[..., 0], indices[..., 0]

    calls.append(along_columns)
    references = [reference(1, x, *rest) for rest in (*arguments, arguments[1])]
    assert_as_references(calls, [x] * len(calls), references)
    integers = with_ties((2, 3, 70), np.int16) - 3
    out, indices = F.max_pool1d(integers, 70, return_indices=True)
    assert_same_bits(out, integers.max(-1, keepdims=True))
    assert_same_bits(indices, integers.argmax(-1, keepdims=True).astype(np.int32))


def test_bits_of_a_gradient_of_max_pool1d_and_max_pool2d_with_many_windows():
    # An element is in more windows than the loop over windows unrolls.
    x = spread(np.random.default_rng(0), (3, 2, 120))
    cotangent = spread(np.random.default_rng(1), (3, 2, 120 - 79))
    cotangent[0, 0, 3] = cotangent[1, 1, 0] = -0.0
    indices = pooled(x, [window_sums.fixed(120, 80, 1)])[1]
    want = np.zeros_like(x)
    for lane in np.ndindex(3, 2):
        windows = np.full((120, 41), -1)
        windows[indices[lane], np.arange(41)] = np.arange(41)
        want[lane] = oracles.window(cotangent[lane], windows)

    @jax.jit
    def gradients(x, cotangent):
        along_rows = jax.vjp(lambda x: F.max_pool1d(x, 80, 1), x)[1](cotangent)[0]
        columns, of_columns = (jnp.moveaxis(part, 0, 2)[None] for part in (x, cotangent))
        along_columns = jax.vjp(lambda x: F.max_pool2d(x, (80, 1), 1), columns)[1](of_columns)[0]
        return along_rows, jnp.moveaxis(along_columns[0], 2, 0)

    for got in gradients(x, cotangent):
        assert_same_bits(got, want)


@pytest.mark.usefixtures("lowering")
def test_a_negative_zero_in_a_gradient_of_max_pool1d_keeps_its_sign():
    @jax.jit
    def gradients(apart, overlapping):
        return (
            jax.vjp(lambda x: F.max_pool1d(x, 2), apart)[1](jnp.array([[-0.0, 0.0]]))[0],
            jax.vjp(lambda x: F.max_pool1d(x, 3, 1), overlapping)[1](jnp.full((1, 2), -0.0))[0],
        )

    of_apart, of_overlapping = gradients(
        np.array([[1, 2, 3, 0.0]], np.float32), np.array([[3, 1, 2, 5]], np.float32)
    )
    assert_same_bits(of_apart, np.array([[0, -0.0, 0, 0]], np.float32))
    assert_same_bits(of_overlapping, np.array([[-0.0, 0, 0, -0.0]], np.float32))


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


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
#: op, positional arguments, keywords, exception, fragment of the message
BAD: list[Call] = [
    ("max_pool1d", ([[1.0]], 1), {}, TypeError, "'input' must be"),
    ("max_pool1d", (ones(6), 2), {}, RuntimeError, "2 or 3 (batch mode) dimensions, but got"),
    ("max_pool1d", (ones(1, 1, 1, 6), 2), {}, RuntimeError, "but got shape [1, 1, 1, 6]"),
    ("max_pool2d", (ones(1, 1, 1, 6, 6), 2), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("max_pool3d", (ones(6, 6, 6), 2), {}, RuntimeError, "4 or 5 (batch mode)"),
    ("max_pool1d", (ones(2, 0, 6), 2), {}, RuntimeError, "but got shape [2, 0, 6]"),
    ("max_pool2d", (ones(0, 6, 6), 2), {}, RuntimeError, "non-zero size"),
    ("max_pool3d", (ones(2, 3, 6, 0, 6), 2), {}, RuntimeError, "non-zero size"),
    ("max_pool1d", (L, 0), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("max_pool2d", (HW, (2, -1)), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("max_pool1d", (L, 2, 0), {}, RuntimeError, "stride should be greater than zero, but got [0]"),
    ("max_pool3d", (DHW, 2, (1, -1, 1)), {}, RuntimeError, "stride should be greater than zero"),
    ("max_pool1d", (L, 2, 1, -1), {}, RuntimeError, "padding must be non-negative, but got [-1]"),
    ("max_pool2d", (HW, 3, 1, (1, 2)), {}, RuntimeError, "at most half of kernel_size"),
    ("max_pool2d", (HW, 2, 1, 2, 3), {}, RuntimeError, "at most half of kernel_size"),
    ("max_pool2d", (HW, 2, 1, 0, 0), {}, RuntimeError, "dilation should be greater than zero"),
    ("max_pool3d", (DHW, 2, 1, 0, -1), {}, RuntimeError, "but got [-1, -1, -1]"),
    ("max_pool1d", (L, 8), {}, RuntimeError, "size 6 gives an output of size 0"),
    ("max_pool2d", (HW, 2, 1, 0, (5, 6)), {}, RuntimeError, "gives an output of size 1x0"),
    ("max_pool1d", (L, (2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 1 of them"),
    ("max_pool2d", (HW, (2, 2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 2 of them"),
    ("max_pool3d", (DHW, 2, (2, 2)), {}, RuntimeError, "'stride' must be an int or 3 of them"),
    ("max_pool2d", (HW, 2, 2, (0, 0, 0)), {}, RuntimeError, "'padding' must be an int or 2"),
    ("max_pool2d", (HW, 2, 2, 0, (1, 1, 1)), {}, RuntimeError, "'dilation' must be an int or 2"),
    ("max_pool1d", (L, 2.0), {}, TypeError, "'kernel_size' must be int, not float"),
    ("max_pool1d", (L, True), {}, TypeError, "'kernel_size' must be int, not bool"),
    ("max_pool2d", (HW, None), {}, TypeError, "'kernel_size' must be int, not NoneType"),
    ("max_pool2d", (HW, 2, "2"), {}, TypeError, "'stride' must be int, not str"),
    ("max_pool2d", (HW, 2, 2, 0, 1.5), {}, TypeError, "'dilation' must be int, not float"),
    ("max_pool2d", (HW, 2), {"ceil_mode": 1}, TypeError, "'ceil_mode' must be bool, not int"),
    ("max_pool2d", (HW.astype(bool), 2), {}, NotImplementedError, "not implemented for bool"),
    ("max_pool3d", (DHW.astype(np.complex64), 2), {}, NotImplementedError, "for complex64"),
]  # fmt: skip


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD


def test_return_indices_must_be_a_bool():
    with pytest.raises(TypeError, match=r"^max_pool1d\(\): argument 'return_indices' must be bool"):
        F.max_pool1d(L, 2, return_indices=1)


def test_forms_of_the_arguments_of_max_pool2d():
    x = normal((3, 6, 6))
    want = F.max_pool2d(x, (2, 2), (2, 2), (0, 0), (1, 1))
    for arguments in [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0], [1]), (np.int64(2), None)]:
        assert_same_bits(F.max_pool2d(x, *arguments), want)
