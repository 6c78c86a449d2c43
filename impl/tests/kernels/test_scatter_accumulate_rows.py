"""The kernels of wide rows; `impl/tests/exact/test_scatter_sorted.py` compares their sums.

Tests: impl._kernels._sorted_rows.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._kernels import _sorted_rows, scatter_accumulate_rows
from impl._kernels._sorted_rows import Runs
from impl._kernels.scatter_accumulate_rows import Arithmetic
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats

PART = 8
COUNT, SIZE, WIDTH = 2 * PART + 3, 9, 6
#: One run is cut: it starts in the first part, and ends in the last.
KEYS = np.repeat([1, 2, 7], [PART - 3, PART + 4, 2])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(_sorted_rows, "CHUNK", 4)
    monkeypatch.setattr(_sorted_rows, "PART", PART)


def runs():
    slots = [3, 0, 0, 3, 0, 3]
    arrays = (jnp.asarray(a, jnp.int32) for a in (KEYS, np.arange(COUNT), slots))
    found = Runs(*arrays, floats(COUNT))
    assert found.parts == 3
    return found


ARITHMETIC = Arithmetic(
    lambda values: [values, values.astype(jnp.int32)],
    ("add", "max"),
    lambda sums, count: (sums[0] + count, sums[1] > count),
)


def whole(launch, kernel):
    operands = floats(COUNT, WIDTH), floats(SIZE, WIDTH)
    with arithmetic.wide():
        kernel(runs(), *operands, ARITHMETIC, launch=launch)


def from_zeros(launch, kernel):
    # No run is cut.
    uncut = dataclasses.replace(
        runs(), keys=jnp.asarray(np.arange(COUNT) // 3), slots=jnp.full(6, 3)
    )
    with arithmetic.wide():
        like = jax.ShapeDtypeStruct((2 * PART, WIDTH), jnp.float32)
        kernel(uncut, floats(COUNT, WIDTH), like, ARITHMETIC, launch=launch)


def cuts(launch, kernel):
    kernel(jnp.asarray(KEYS, jnp.int32), SIZE, launch=launch)


#: Calls of each kernel, with sizes that fill no tile, and several chunks.
CALLS = {
    scatter_accumulate_rows.add_whole_runs: [whole],
    scatter_accumulate_rows.add_from_zeros: [from_zeros],
    scatter_accumulate_rows.cuts: [cuts],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
