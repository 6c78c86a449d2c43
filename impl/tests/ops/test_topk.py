"""topk alone; test_selection.py tests it with its relatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from spec import oracles

complete = pytest.mark.usefixtures("complete")


@complete
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_topk_at_the_limits(dtype):
    # A CPU converts numbers of every dtype to floats of the same order, to find the first few.
    info = jnp.finfo(dtype) if dtype is np.float32 else jnp.iinfo(dtype)
    few = np.array([info.max, info.min, 0, 1, info.max, 2**31 - 1, 2**24 + 1, 2**24], np.float64)
    if dtype is np.float32:
        # Subnormals such as 1e-45 are less than any normal number, and not 0.
        few = np.concatenate([few, [1e-45, -1e-45, 1e-40, -0.0, np.inf, -np.inf, np.nan]])
    x = np.resize(few.astype(dtype), 64)
    np.random.default_rng(0).shuffle(x)
    cases = [(largest, k) for largest in (True, False) for k in (4, 30, 64)]
    results = jax.jit(lambda x: [impl.topk(x, k, largest=largest) for largest, k in cases])(x)
    for (largest, k), got in zip(cases, results, strict=True):
        order = oracles.stable_sort(x.astype(np.float64), descending=largest)[:k]
        assert_same_bits(got.indices, order.astype(np.int32))
        assert_same_bits(got.values, x[order])


@complete
@pytest.mark.once
@pytest.mark.parametrize(("rows", "length"), [(3, 101), (9, 9001)])
def test_topk_among_groups_with_equals(rows, length):
    # A CPU looks into the groups of neighbours with the greatest elements; the last is not full.
    x = np.random.default_rng(length).geometric(0.5, (rows, length)).astype(np.float32)
    # The last group has the greatest element, and an equal of one in the first group.
    x[:, -1], x[:, [0, -2]] = 99, 98
    for largest in (True, False):
        order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :5]
        assert_same_bits(impl.topk(x, 5, largest=largest).indices, order.astype(np.int32))
