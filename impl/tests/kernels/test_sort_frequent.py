"""The kernel of the most frequent element."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._kernels import sort_frequent
from impl._kernels.launch import Launch
from impl.tests.kernels._unwritten import assert_every_element_is_written
from impl.tests.kernels.test_select_kth import numbers
from spec import oracles


def find(launch, kernel):
    kernel(numbers(3, 6), launch=launch)


#: Calls of the kernel, with sizes that fill no tile.
CALLS = {sort_frequent.first_position: [find]}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["float32", "uint32"])
def test_the_least_of_the_most_frequent_is_found_at_its_first_position(monkeypatch, dtype):
    monkeypatch.setattr(sort_frequent, "_LANE_BYTES", 16)  # Four keys: lanes join their runs.
    rng = np.random.default_rng(5)
    x = rng.integers(0, 5, (200, 21)).astype(np.float64)
    if dtype == "float32":
        x[rng.random(x.shape) < 0.5] = np.nan
        x[(x == 0) & (rng.random(x.shape) < 0.5)] = -0.0
        x[0] = np.nan
    else:  # The greatest is also what fills the lanes after the end.
        x[rng.random(x.shape) < 0.2] = 2**32 - 1
    found = sort_frequent.first_position(jnp.asarray(x.astype(dtype)), launch=Launch(True, 3))
    np.testing.assert_array_equal(found, oracles.most_frequent(x.T))


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_the_network_sorts(dtype):
    with jax.enable_x64(True):
        keys = np.random.default_rng(3).integers(0, 2**32, (2, 32)).astype(dtype)
        keys[:, ::5] = np.iinfo(dtype).max  # The sum of two of these is beyond the dtype.
        np.testing.assert_array_equal(jax.jit(sort_frequent.in_order)(keys), np.sort(keys))
