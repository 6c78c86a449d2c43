"""The kernels of wide rows; `impl/tests/exact/test_wide_rows.py` compares their sums."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from impl._kernels import scatter_accumulate_rows
from impl._kernels.scatter_accumulate_rows import CHUNK, Runs
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats

COUNT, SIZE, WIDTH = 2 * CHUNK + 3, 9, 6


def runs():
    keys = np.sort(np.random.default_rng(0).integers(0, SIZE, COUNT))
    ends = (np.searchsorted(keys, np.arange(SIZE), side) for side in ("left", "right"))
    found = Runs(*(jnp.asarray(a, jnp.int32) for a in (keys, np.arange(COUNT), *ends, [COUNT])))
    assert found.chunks == 3
    return found


def whole(row, *_):
    return row.astype(jnp.int32)


def combine(launch, kernel, exponents):
    updates = floats(COUNT, WIDTH)
    kernel(runs(), updates, exponents, whole, jnp.add, np.int32(0), launch=launch)


def add(launch, kernel):
    operands = floats(COUNT, WIDTH), floats(SIZE, WIDTH)
    owners, results = jnp.array([SIZE, 2, SIZE], jnp.int32), floats(3, WIDTH)

    def total(digits, _):
        return digits.astype(jnp.float32)

    kernel(runs(), *operands, owners, results, whole, whole, total, launch=launch)


#: Calls of each kernel, with sizes that fill no tile, and several chunks.
CALLS = {
    scatter_accumulate_rows.across: [
        functools.partial(combine, exponents=None),
        functools.partial(combine, exponents=jnp.zeros((3, WIDTH), jnp.int32)),
    ],
    scatter_accumulate_rows.within: [add],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
