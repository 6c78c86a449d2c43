"""The kernel of scatter-assign."""

import pytest

from impl._kernels import scatter_assign
from impl.tests.kernels._unwritten import assert_every_element_is_written, indices

#: Calls of each kernel, with sizes that fill no block, and several blocks.
CALLS = {
    scatter_assign.any_writer: [
        lambda launch, kernel: kernel(indices((2, 150, 3), 40), 40, launch=launch)
    ],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
