"""The kernel of windows."""

import numpy as np
import pytest

from impl._families.window_table import WindowTable
from impl._kernels import windows
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats


def scatter(launch, kernel):
    tables = (
        WindowTable.of(5, [[0, 1], [3, 4]]),
        WindowTable.of(7, [[1, 2], [4, 5], [6, 7]], np.ones((3, 2))),
    )
    kernel(floats(30, 2, 3), tables, launch=launch)


#: Calls of each kernel, with sizes that fill no block, and several blocks.
CALLS = {windows.scatter: [scatter]}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
