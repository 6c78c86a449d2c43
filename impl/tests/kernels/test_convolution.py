"""The kernels of convolutions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._families.convolution_window import ConvolutionWindow
from impl._kernels import convolution
from impl._kernels.launch import Launch
from impl._lowerings.convolution import ordered_xla
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


#: Windows, and the numbers of images, inputs and outputs. The first has runs of several taps, and
#: the last run is shorter. The second has dilated taps, padding, and one channel more than a load
#: reads.
WINDOWS = [
    (ConvolutionWindow((8, 9), (4, 5), (7, 7), (2, 2), (1, 1), (3, 3), 1), (3, 3, 20)),
    (ConvolutionWindow((7, 5), (7, 5), (3, 3), (1, 1), (2, 2), (2, 2), 2), (2, 33, 5)),
]


@pytest.mark.once
@pytest.mark.parametrize("role", ["result", "image", "weights"])
@pytest.mark.parametrize(("window", "sizes"), WINDOWS, ids=["runs", "gaps"])
def test_a_kernel_multiplies_what_a_window_reads(window, sizes, role):
    n, inputs, outputs = sizes
    groups = window.groups
    rng = np.random.default_rng(0)
    image, weights, result = (
        jnp.asarray(rng.integers(-3, 4, shape), jnp.float32)
        for shape in (
            (n, inputs * groups, *window.image),
            (outputs * groups, inputs, *window.kernel),
            (n, outputs * groups, *window.result),
        )
    )
    a, b = {"result": (image, weights), "image": (result, weights)}.get(role, (image, result))
    launch = Launch(interpret=True, seed=3)

    @jax.jit
    def both(a, b):
        of_kernel = convolution.convolution(
            a, b, role=role, window=window, tf32=False, launch=launch
        )
        return of_kernel, ordered_xla(a, b, role=role, window=window, precision="highest")

    np.testing.assert_array_equal(*both(a, b))
