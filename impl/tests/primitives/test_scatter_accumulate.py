"""Scatter-accumulate: minima and maxima of all values, and batches.

Tests: impl._lowerings.scatter_accumulate_extreme.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from impl._primitives.scatter_accumulate import scatter_accumulate
from impl.tests.primitives._scatters import (
    assert_batch_has_the_bits_of_its_members,
    decision,
    lanes,
)
from impl.tests.support.lowerings import DISTINCT, LOWERINGS

NAN, INF = np.float32(np.nan), np.float32(np.inf)


@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.parametrize("path", ["atomic", "ordered"])
def test_extremes_of_zeros_and_nans_do_not_depend_on_the_order(name, path):
    operand = lanes(0.0, -0.0, 5.0, NAN, -INF, 1.0)
    values = [(0, -0.0), (1, 0.0), (2, NAN), (2, INF), (3, 7.0), (4, -1.0), (9, 3.0), (-1, 3.0)]
    index = np.array([destination for destination, _ in values], np.int32)[None, :, None]
    updates = lanes(*(value for _, value in values))
    with LOWERINGS[name]():
        low, high = (
            np.asarray(scatter_accumulate(operand, index, updates, decision=decision(path), by=by))
            for by in ("min", "max")
        )
    np.testing.assert_array_equal(low[0, :, 0], [0, 0, NAN, NAN, -INF, 1])
    np.testing.assert_array_equal(high[0, :, 0], [0, 0, NAN, NAN, -1, 1])
    assert np.signbit(low[0, :2, 0]).tolist() == [True, True]
    assert np.signbit(high[0, :2, 0]).tolist() == [False, False]


@pytest.mark.parametrize("by", ["min", "max"])
def test_an_element_without_updates_keeps_its_bits_also_those_of_a_nan(by):
    words = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 1], np.uint32)
    operand = words.view(np.float32)[None, :, None]
    index = np.full((1, 1, 1), 99)
    out = scatter_accumulate(operand, index, lanes(1), decision=decision(), by=by)
    assert np.asarray(out).view(np.uint32).ravel().tolist() == words.tolist()


@pytest.mark.parametrize(
    "dtype",
    [np.float16, jnp.bfloat16, np.int8, np.uint8, np.uint32, np.int32, np.bool_],
    ids=lambda d: d.__name__,
)
def test_extremes_of_every_dtype(dtype):
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (1, 64 * np.dtype(dtype).itemsize, 1), np.uint8)
    updates = raw.reshape(1, -1).view(dtype if dtype is not np.bool_ else np.uint8)[..., None]
    if dtype is np.bool_:
        updates = updates > 127
    if np.dtype(dtype).kind not in "iub":
        updates = np.where(np.isfinite(updates.astype(np.float32)), updates, dtype(0))
    index = rng.integers(0, 5, updates.shape)
    operand = updates[:, :6]
    for by, combine in (("min", np.minimum), ("max", np.maximum)):
        expected = operand.copy()
        for i, value in zip(index.ravel(), updates.ravel(), strict=True):
            expected[0, i, 0] = combine(expected[0, i, 0], value)
        got = np.asarray(scatter_accumulate(operand, index, updates, decision=decision(), by=by))
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("by", ["add", "mul", "max"])
def test_a_batch_gives_the_bits_of_its_members(by):
    function = functools.partial(scatter_accumulate, decision=decision(), by=by)
    assert_batch_has_the_bits_of_its_members(function)
