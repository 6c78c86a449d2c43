"""The kernels of convolutions."""

import functools

import pytest

from impl._core.convolution_window import ConvolutionWindow
from impl._kernels import convolution
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats


def convolve(launch, kernel, role):
    window = ConvolutionWindow((5, 6), (2, 4), (3, 2), (2, 1), (1, 2), (0, 0), 2)
    image, weights, result = floats(2, 4, 5, 6), floats(6, 2, 3, 2), floats(2, 6, 2, 4)
    pairs = {"result": (image, weights), "image": (result, weights), "weights": (image, result)}
    kernel(*pairs[role], role=role, window=window, tf32=False, launch=launch)


#: Calls of each kernel, with sizes that fill no block.
CALLS = {
    convolution.convolution: [
        functools.partial(convolve, role=role) for role in ("result", "image", "weights")
    ],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])
