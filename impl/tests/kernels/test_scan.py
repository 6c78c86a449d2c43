"""The kernels of scans."""

import functools

import pytest

from impl._core import scan_combines
from impl._kernels import scan
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats


def fold(launch, kernel, name, parts, shape, group):
    values = tuple(floats(*shape) for _ in range(parts))
    kernel(values, scan_combines.COMBINES[name], launch=launch, group=group)


#: Calls of each kernel, with sizes that fill no block, and several blocks.
CALLS = {
    scan.fold_blocks: [
        functools.partial(fold, name="add", parts=1, shape=(3, 5, 50), group=None),
        functools.partial(fold, name="mul", parts=2, shape=(2, 7, 3), group=4),
    ],
    scan.atomic_carry: [lambda launch, kernel: kernel(floats(3, 2100), launch=launch)],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
