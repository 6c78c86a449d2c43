"""kthvalue alone; test_selection.py tests it with its relatives."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from spec import oracles

complete = pytest.mark.usefixtures("complete")


@complete
def test_kthvalue_of_every_k():
    values = np.array([np.nan, 1.0, -np.inf, 0.0, -0.0, np.inf, -np.nan, -1.0], np.float32)
    picks = jax.jit(lambda x: [impl.kthvalue(x, k) for k in range(1, 9)])(values)
    # NaNs come last, and zeros of both signs are equal.
    assert [int(p.indices) for p in picks] == [2, 7, 3, 3, 1, 5, 0, 0]
    assert np.isnan(picks[6].values)
    for dtype in (np.int8, np.uint8, np.int32, np.uint32):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        numbers = np.array([high, 1, low, high - 1], dtype)
        picks = jax.jit(lambda x: [impl.kthvalue(x, k) for k in (1, 2, 3, 4)])(numbers)
        assert [int(p.values) for p in picks] == [low, 1, high - 1, high]
        assert [int(p.indices) for p in picks] == [2, 1, 3, 0]


@complete
@pytest.mark.usefixtures("lowering")
def test_kthvalue_of_many():
    rng = np.random.default_rng(0)
    calls, inputs = {}, {}
    for dtype in (np.float32, np.int8):
        values = rng.integers(-3, 4, (2100, 2)).astype(dtype)
        if dtype is np.float32:
            values[::5] = -values[::5]  # -0 among the zeros
            values[1::50] = np.nan
            values[3::50] = -np.nan
        for k in (1050, 2100):
            name = f"{dtype.__name__}, k = {k}"
            calls[name] = lambda x, k=k: tuple(impl.kthvalue(x, k, 0)), values
            inputs[name] = values, k
    for name, (values, indices) in run_together(calls).items():
        x, k = inputs[name]
        want = oracles.lowest_index(x, k)
        assert_same_bits(indices, want.astype(np.int32), name)
        assert_same_bits(values, np.take_along_axis(x, want[None], 0)[0], name)


def test_the_mode_off_is_right_under_any_schedule():
    values = np.random.default_rng(0).permutation(1500).astype(np.float32)
    with impl.deterministic(False), impl.testing.schedule(3):
        assert impl.kthvalue(values, 700).indices == np.argsort(values)[699]
