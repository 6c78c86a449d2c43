"""The kernel of matrix products."""

import functools

import pytest

from impl._kernels import matmul
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats


def multiply(launch, kernel, apart):
    def element_at(rows, columns):
        return lambda batch, i, j: ((batch * rows + i) * columns + j, True)

    kernel(
        floats(2, 70, 40),
        floats(2, 40, 33),
        matmul.Product(2, 70, 33, 40, 32),
        element_at(70, 40),
        element_at(40, 33),
        launch=launch,
        tf32=False,
        apart=apart,
    )


#: Calls of each kernel, with sizes that fill no tile, and several tiles.
CALLS = {matmul.products: [functools.partial(multiply, apart=apart) for apart in (False, True)]}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
