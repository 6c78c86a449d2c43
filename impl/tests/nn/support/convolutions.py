"""References of convolutions, and calls that tests draw.

Arrays of contributions have one axis for the taps of a kernel: its positions in row-major order.
"""

import itertools

import jax
import numpy as np

from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits
from spec import oracles


def drawn_calls(seed, count, *, transposed):
    """Yields dimensions, shapes of input, weight and bias, and options; some are refused."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        dims = number % 3 + 1
        groups = int(rng.choice([1, 1, 2, 3]))
        inputs, outputs = (int(rng.integers(1, 4)) for _ in range(2))
        if number % 7 == 0:
            inputs = 35  # More than the terms of a run.
        kernel, stride, dilation, padding, sizes = (
            tuple(int(v) for v in rng.integers(low, high, dims))
            for low, high in ((1, 4), (1, 4), (1, 3), (0, 4), (1, 9))
        )
        channels = (inputs * groups, outputs) if transposed else (outputs * groups, inputs)
        batch = (int(rng.integers(1, 4)),) if rng.integers(4) else ()
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            options["output_padding"] = tuple(
                int(rng.integers(max(pair))) for pair in zip(stride, dilation, strict=True)
            )
        elif number % 3 != 1:
            options["padding"] = ("same", "valid")[number % 2]
            options["stride"] = 1 if number % 2 == 0 else stride
        shapes = [(*batch, inputs * groups, *sizes), (*channels, *kernel)]
        if rng.integers(3):
            shapes.append((outputs * groups,))
        yield dims, shapes, options


def weights_in_runs(rng, shape, run):
    """Returns weights of whole numbers, times a power of two that differs from run to run.

    The sum of a run of contributions is exact, and the sum of the runs depends on their order.
    """
    outputs, inputs, *kernel = shape
    values = rng.integers(-8, 9, (outputs, inputs, int(np.prod(kernel)))).astype(np.float32)
    scale = 2.0 ** np.resize([20, 0, 1, 19, 0, 2], -(-values.shape[2] // run))
    values = values * np.repeat(scale, run)[: values.shape[2]]
    return values.reshape(shape).astype(np.float32)


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


def convolution(x, w, result, stride, dilation, padding, *, order=slice(None)):
    """Returns a convolution of one group, with taps in their order or in another ``order``."""
    elements = elements_of_taps(x, w.shape[2:], result, stride, dilation, padding)
    flat = w.reshape(*w.shape[:2], -1)
    terms = np.stack(
        [
            np.stack(
                [np.multiply.outer(flat[:, c, t], elements[t, :, c]) for c in range(x.shape[1])]
            )
            for t in range(len(elements))
        ][order]
    )
    return np.moveaxis(oracles.taps(terms), 0, 1)


def transposed_convolution(y, w, image, stride, dilation, padding, *, order=slice(None)):
    """Returns the transpose of a convolution of one group, with taps in an ``order``."""
    kernel, result = w.shape[2:], y.shape[2:]
    count = int(np.prod(image))
    numbers = np.arange(1, count + 1).reshape(1, 1, *image)
    elements = elements_of_taps(numbers, kernel, result, stride, dilation, padding)
    elements = elements[:, 0, 0].reshape(-1, y[0, 0].size)
    flat, columns = w.reshape(*w.shape[:2], -1), y.reshape(*y.shape[:2], -1)
    terms = np.zeros((len(elements), w.shape[0], w.shape[1], y.shape[0], count + 1), np.float32)
    for t, o in itertools.product(range(len(elements)), range(w.shape[0])):
        terms[t, o][..., elements[t]] = np.multiply.outer(flat[o, :, t], columns[:, o])
    total = oracles.taps(terms[order][..., 1:], image=True)
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
