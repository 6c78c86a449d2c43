"""adaptive_max_pool1d, 2d and 3d; ``test_pooling`` has the properties of all pools."""

import functools

import jax
import numpy as np
import pytest

import impl
from impl._families.window_table import WindowTable
from impl._lowerings.windows import picks
from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
#: op, positional arguments, exception, fragment of the message
BAD: list[Call] = [
    ("adaptive_max_pool1d", ([[1.0]], 1), TypeError, "'input' must be"),
    ("adaptive_max_pool1d", (ones(6), 2), RuntimeError, "2 or 3 (batch mode) dimensions"),
    ("adaptive_max_pool2d", (ones(1, 2, 3, 6, 6), 2), RuntimeError, "3 or 4 (batch mode)"),
    ("adaptive_max_pool3d", (HW, 2), RuntimeError, "got shape [3, 6, 6]"),
    ("adaptive_max_pool1d", (ones(2, 0, 6), 2), RuntimeError, "got shape [2, 0, 6]"),
    ("adaptive_max_pool2d", (ones(2, 3, 6, 0), 2), RuntimeError, "non-zero size"),
    ("adaptive_max_pool2d", (HW, -1), RuntimeError, "than or equal to 0, but got [-1, -1]"),
    ("adaptive_max_pool1d", (L, (2, 2)), RuntimeError, "'output_size' must be an int or 1"),
    ("adaptive_max_pool2d", (HW, (2,)), RuntimeError, "'output_size' must be an int or 2"),
    ("adaptive_max_pool1d", (L, (None,)), TypeError, "'output_size[0]' must be int"),
    ("adaptive_max_pool2d", (HW, None), TypeError, "'output_size' must be int, not NoneType"),
    ("adaptive_max_pool3d", (DHW, 2.0), TypeError, "'output_size' must be int, not float"),
    ("adaptive_max_pool3d", (DHW, True), TypeError, "'output_size' must be int, not bool"),
    ("adaptive_max_pool2d", (HW, (1, 2, 3)), ValueError, "at least 4 dimensions for 3 sizes"),
    ("adaptive_max_pool3d", (HW, (1, 2, 3)), ValueError, "'output_size', but has 3"),
    ("adaptive_max_pool1d", (L.astype(int), 2), NotImplementedError, "not implemented for int"),
    ("adaptive_max_pool2d", (HW.astype(bool), 2), NotImplementedError, "implemented for bool"),
]


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD


def test_return_indices_must_be_a_bool():
    with pytest.raises(TypeError, match=r"^adaptive_max_pool1d\(\): .*'return_indices' must be bo"):
        F.adaptive_max_pool1d(L, 2, 1)


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


@pytest.mark.once
@pytest.mark.parametrize(
    ("size", "windows", "kernel"),
    [(40, 3, 30), (32, 1, 20), (24, 3, 8), (5, 3, 3), (8, 3, 4)],
)
def test_the_gradient_of_many_windows(size, windows, kernel):
    # Evenly spaced windows are read in whole slices; in the last two cases, a phase at a time. An
    # element of three windows shows the order of its three terms.
    start = np.arange(windows) * (size - kernel) // max(windows - 1, 1)
    table = WindowTable.intervals(size, start, start + kernel)
    rng = np.random.default_rng(size)
    picked = rng.uniform(1, 1.25, (2, windows, 3)) * [[[1], [1e8], [-1e8]][:windows]]
    picked, index = picked.astype(np.float32), np.zeros((2, windows, 3), np.int32)
    index[0] = np.clip(size // 2, start, start + kernel - 1)[:, None]
    index[1], picked[1] = start[:, None], -0.0
    assert_the_transpose_adds_in_order(picked, index, table)


@pytest.mark.once
@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation"),
    [
        (9, 3, 2, 1, 1),  # Two windows over an element, in a short row.
        (120, 3, 2, 1, 1),  # In a long row.
        (24, 3, 2, 1, 1),  # In short rows that are joined.
        (28, 4, 2, 1, 1),
        (60, 2, 1, 1, 1),  # Two windows over each element, and one window more.
        (11, 3, 1, 1, 1),
        (13, 5, 2, 2, 1),
        (14, 7, 4, 3, 1),
        (12, 3, 2, -1, 1),  # The first input is in no window.
        (13, 2, 1, 0, 3),
        (7, 2, 3, 1, 2),
    ],
)
def test_the_gradient_of_evenly_spaced_windows(size, kernel, stride, padding, dilation, inner):
    windows = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    start = stride * np.arange(windows) - padding
    table = WindowTable.of(size, start[:, None] + dilation * np.arange(kernel))
    even = table.even
    assert even is not None
    assert (even.start, even.step, even.taps) == (-padding, stride, kernel)
    rng = np.random.default_rng(size)
    shape = 5, windows, inner
    tap = rng.integers(0, table.counts[:, None], shape)
    index = np.take_along_axis(table.index[None, :, :, None], tap[:, :, None], 2)[:, :, 0]
    magnitude = 10.0 ** rng.integers(-6, 7, shape)
    picked = (rng.uniform(-1, 1, shape) * magnitude).astype(np.float32)
    picked[rng.random(shape) < 0.3] = -0.0
    assert_the_transpose_adds_in_order(picked, index, table)


def assert_the_transpose_adds_in_order(picked, index, table):
    on_cpu = functools.partial(picks.pick_transpose_cpu, before=picked.shape[0])
    for transpose in (on_cpu, picks.pick_transpose_xla):
        got = jax.jit(functools.partial(transpose, table=table))(picked, index)
        assert_same_bits(got, by_the_table(picked, index, table=table))


def by_the_table(picked, index, *, table):
    """Adds the terms of each element one after another."""
    out = np.zeros((picked.shape[0], table.inputs, picked.shape[2]), np.float32)
    met = np.zeros(out.shape, bool)
    for outer, window, inner in np.ndindex(picked.shape):
        cell = outer, int(index[outer, window, inner]), inner
        value = np.asarray(picked)[outer, window, inner]
        out[cell], met[cell] = out[cell] + value if met[cell] else value, True
    return out
