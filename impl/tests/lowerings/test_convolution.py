"""Convolutions on a CPU that keep the products of all taps."""

import jax
import numpy as np
import pytest

from impl._core.convolution_window import ConvolutionWindow
from impl._lowerings import convolution
from impl.tests.support.bits import bits
from spec import oracles

#: Few more positions are in a padded image than in a result.
WINDOW = ConvolutionWindow((22, 20), (22, 20), (3, 1), (1, 1), (1, 1), (1, 0), 2)


@pytest.mark.once
def test_kept_products_are_added_in_tap_order():
    rng = np.random.default_rng(0)
    # One channel is not 0, and each product is exact, so that the sum of a run is exact.
    image, weights = np.zeros((3, 64, 22, 20), np.float32), np.zeros((4, 32, 3, 1), np.float32)
    image[:, ::32] = rng.choice([-1, 1], (3, 2, 22, 20)) * 2.0 ** rng.integers(
        -2, 3, (3, 2, 22, 20)
    )
    weights[:, 0] = rng.normal(size=(4, 3, 1))
    assert convolution._keeps_products(3, 4, WINDOW)
    call = jax.jit(
        lambda a, b: convolution.ordered_xla(
            a, b, role="result", window=WINDOW, precision="highest"
        )
    )
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (0, 0)))
    for output in range(4):
        channels = padded[:, output // 2 * 32 : output // 2 * 32 + 32]
        terms = [
            channels[:, :, t : t + 22] * weights[output, :, t, 0, None, None] for t in range(3)
        ]
        expected = oracles.taps(np.moveaxis(np.stack(terms), 2, 1))
        assert bits(call(image, weights)[:, output]) == bits(expected)
