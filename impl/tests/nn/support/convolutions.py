"""References of convolutions.

Arrays of contributions have one axis for the taps of a kernel: its positions in row-major order.
"""

import itertools

import jax
import numpy as np

from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits


def elements_of_taps(x, kernel, result, stride, dilation, padding):
    """Returns the elements of an image that each tap reads: [taps, n, channels, *result]."""
    room = [(p, p + s * 9 + d * 9) for p, s, d in zip(padding, stride, dilation, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *room])
    return np.stack(
        [
            padded[
                (
                    ...,
                    *(
                        slice(t * d, t * d + (o - 1) * s + 1, s)
                        for t, d, o, s in zip(tap, dilation, result, stride, strict=True)
                    ),
                )
            ]
            for tap in itertools.product(*map(range, kernel))
        ]
    )


def convolution(x, w, result, stride, dilation, padding):
    """Returns a convolution of one group."""
    elements = elements_of_taps(x, w.shape[2:], result, stride, dilation, padding)
    flat = w.reshape(*w.shape[:2], -1)
    return np.einsum("oct,tnc...->no...", flat, elements)


def transposed_convolution(y, w, image, stride, dilation, padding):
    """Returns the transpose of a convolution of one group."""
    kernel, result = w.shape[2:], y.shape[2:]
    count = int(np.prod(image))
    numbers = np.arange(1, count + 1).reshape(1, 1, *image)
    elements = elements_of_taps(numbers, kernel, result, stride, dilation, padding)
    elements = elements[:, 0, 0].reshape(-1, y[0, 0].size)
    flat, columns = w.reshape(*w.shape[:2], -1), y.reshape(*y.shape[:2], -1)
    terms = np.zeros((len(elements), w.shape[0], w.shape[1], y.shape[0], count + 1), np.float32)
    for t, o in itertools.product(range(len(elements)), range(w.shape[0])):
        terms[t, o][..., elements[t]] = np.multiply.outer(flat[o, :, t], columns[:, o])
    total = terms[..., 1:].sum((0, 1))
    return np.moveaxis(total, 0, 1).reshape(y.shape[0], -1, *image)


def assert_empty_batch(function, weight, shape):
    """Checks the result and the gradients of no images of 2 channels, with a bias of 3 channels."""
    x, b = ones(0, 2, 5), ones(3)
    out, pullback = jax.vjp(function, x, weight, b)
    assert out.shape == shape
    of_x, of_w, of_b = pullback(out)
    assert_same_bits(of_x, x)
    assert_same_bits(of_w, np.zeros_like(weight))
    assert_same_bits(of_b, np.zeros_like(b))
