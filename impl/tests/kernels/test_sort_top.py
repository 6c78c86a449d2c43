"""The kernel of the first elements in sorted order."""

import jax
import numpy as np
import pytest

from impl._kernels import sort_top
from impl._kernels.launch import Launch
from impl._lowerings import sort
from impl.tests.kernels._unwritten import assert_every_element_is_written
from impl.tests.kernels.test_select_kth import numbers


def find(launch, kernel):
    kernel(numbers(3, 70), 5, descending=True, parts=4, launch=launch)


#: Calls of the kernel, with sizes that fill no tile.
CALLS = {sort_top.top_positions: [find]}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])


@pytest.mark.once
@pytest.mark.parametrize(
    ("rows", "n", "count", "descending"), [(40, 37, 9, False), (2, 1500, 3, True)]
)
def test_the_first_of_equals_come_first(monkeypatch, rows, n, count, descending):
    monkeypatch.setattr(sort_top, "_LANE_BYTES", 4)  # One key: a program holds 1024 of them.
    x = numbers(rows, n)[:, :, None]
    options = {"count": count, "descending": descending}
    results = jax.jit(
        lambda x: (
            sort.argsort_kernel(x, **options, launch=Launch(True, 3)),
            sort.argsort_xla(x, **options),
        )
    )(x)
    np.testing.assert_array_equal(*results)
