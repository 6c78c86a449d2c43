"""The kernels of wide rows; `impl/tests/exact/test_wide_rows.py` compares their sums."""

import jax.numpy as jnp
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._kernels import scatter_accumulate_rows
from impl._kernels.scatter_accumulate_rows import Arithmetic, Runs
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats

CHUNK = 8
COUNT, SIZE, WIDTH = 2 * CHUNK + 3, 9, 6
#: Two runs are cut: one at each end of a chunk.
KEYS = np.repeat([1, 2, 5, 7], [CHUNK - 3, 5, CHUNK - 4, 5])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(scatter_accumulate_rows, "CHUNK", CHUNK)


def runs():
    slots = [3, 0, 0, 1, 1, 3]
    arrays = (jnp.asarray(a, jnp.int32) for a in (KEYS, np.arange(COUNT), slots))
    found = Runs(*arrays, floats(COUNT))
    assert found.chunks == 3
    return found


ARITHMETIC = Arithmetic(
    lambda values: values.astype(jnp.int32),
    lambda values, exponents: [(values + exponents).astype(jnp.int64)],
    lambda sums, exponents: (sums[0] - exponents).astype(jnp.float32),
)


def whole(launch, kernel):
    operands = floats(COUNT, WIDTH), floats(SIZE, WIDTH)
    with arithmetic.wide():
        kernel(runs(), *operands, ARITHMETIC, launch=launch)


def cut(launch, kernel):
    exponents = jnp.zeros((3, WIDTH), jnp.int32)
    with arithmetic.wide():
        kernel(runs(), floats(COUNT, WIDTH), exponents, ARITHMETIC, launch=launch)


#: Calls of each kernel, with sizes that fill no tile, and several chunks.
CALLS = {
    scatter_accumulate_rows.add_whole_runs: [whole],
    scatter_accumulate_rows.add_cut_runs: [cut],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
