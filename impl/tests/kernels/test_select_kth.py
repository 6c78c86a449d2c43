"""The kernels of selection.

Tests: impl._kernels._rows.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._kernels import select_kth
from impl._kernels.launch import Launch
from impl._lowerings import select_kth as lowerings
from impl.tests.kernels._unwritten import assert_every_element_is_written


def numbers(rows, n, dtype="float32"):
    """Numbers with many equals, zeros of both signs, and NaNs."""
    x = np.random.default_rng(n).integers(-9, 9, (rows, n)) / 2
    x[:, ::7], x[:, 1::7] = np.nan, -0.0
    return jnp.asarray(x).astype(dtype)


def find(launch, kernel):
    kernel(numbers(3, 70), jnp.asarray([1, 30, 70], jnp.int32), launch=launch)


def find_among_bytes(launch, kernel):
    kernel(numbers(3, 70).astype(jnp.int8), jnp.asarray([1, 30, 70], jnp.int32), launch=launch)


#: Calls of each kernel, with sizes that fill no block.
CALLS = {
    select_kth.by_digits: [find_among_bytes],
    select_kth.first_position: [find],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])


@pytest.mark.once
def test_rows_are_shared_where_a_sample_finds_nothing(monkeypatch):
    monkeypatch.setattr(select_kth, "_PROGRAMS", 6)
    x, ranks = numbers(2, 9000), jnp.asarray([4000, 8000], jnp.int32)
    expected = jax.jit(lowerings.ordered_xla)(x[:, :, None], ranks[:, None, None]).reshape(-1)
    first = jax.jit(functools.partial(select_kth.by_digits, launch=Launch(True, 3)))(x, ranks)
    assert first.tolist() == expected.tolist()


@pytest.mark.once
def test_a_nan_is_found_before_any_rank():
    kernel = select_kth.first_position
    x = np.array(numbers(4, 70, "float16"))
    x[0] = np.abs(np.nan_to_num(x[0]))
    x[2:] = np.nan_to_num(x[2:])
    x[3, 69] = np.nan  # The last lane inside the row.
    for dtype in ("float16", "float32"):
        ranks = jnp.asarray([1, 1, 30, 30], jnp.int32)
        found = kernel(jnp.asarray(x, dtype), ranks, launch=Launch(True, 3), nan_first=True)
        rows = x[np.arange(4), np.asarray(found)]
        np.testing.assert_array_equal(rows, [x[0].min(), np.nan, np.sort(x[2])[29], np.nan])
    values = jnp.arange(70, dtype=jnp.int8)[None]  # No NaN, so the greatest key is a number.
    found = kernel(values, jnp.asarray([3], jnp.int32), launch=Launch(True, 3), nan_first=True)
    assert found.tolist() == [2]
