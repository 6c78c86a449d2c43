"""Convolutions on a CPU that keep the products of all taps.

Tests: impl._lowerings.convolution_products.
"""

import jax
import numpy as np
import pytest

from impl._families.convolution_window import ConvolutionWindow
from impl._lowerings import convolution, convolution_products
from impl.tests.support.bits import bits
from spec import oracles

#: A padded image has only a few more positions than a result.
WINDOW = ConvolutionWindow((22, 20), (22, 20), (3, 1), (1, 1), (1, 1), (1, 0), 2)


@pytest.mark.once
def test_products_at_once_are_added_in_tap_order():
    rng = np.random.default_rng(0)
    # One channel is not 0, and each product is exact, so that the sum of a run is exact.
    image, weights = np.zeros((3, 64, 22, 20), np.float32), np.zeros((4, 32, 3, 1), np.float32)
    image[:, ::32] = rng.choice([-1, 1], (3, 2, 22, 20)) * 2.0 ** rng.integers(
        -2, 3, (3, 2, 22, 20)
    )
    weights[:, 0] = rng.normal(size=(4, 3, 1))
    assert convolution_products._fits_at_once(3, 4, WINDOW)
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


@pytest.mark.once
@pytest.mark.parametrize("inputs", [2, 32])
def test_gradients_over_several_blocks_and_products_are_exact(inputs, monkeypatch):
    # Sums of small whole numbers are the same in every order.
    monkeypatch.setattr(convolution_products, "_COLUMNS", 20_000)
    window = ConvolutionWindow((65, 72), (33, 36), (5, 5), (2, 2), (1, 1), (2, 2), 2)
    rng = np.random.default_rng(0)
    whole = [
        rng.integers(-4, 5, shape).astype(np.float32)
        for shape in ((2, 2 * inputs, 65, 72), (2, 4, 33, 36), (4, inputs, 5, 5))
    ]
    image, result, weights = whole
    assert convolution_products._images_per_block(2, window) == 1
    for role, operands in (("weights", (image, result)), ("image", (result, weights))):
        params = {"role": role, "window": window, "precision": "highest"}
        found = jax.jit(lambda *a, p=params: convolution.ordered_xla(*a, **p))(*operands)
        expected = convolution.atomic_xla(*operands, **params)
        assert bits(found) == bits(expected)


@pytest.mark.once
@pytest.mark.parametrize("role", ["result", "weights"])
def test_images_are_padded_once(role):
    window = ConvolutionWindow((8, 8), (8, 8), (3, 3), (1, 1), (1, 1), (1, 1), 1)
    image, weights, result = (
        jax.ShapeDtypeStruct(shape, np.float32)
        for shape in ((16, 3, 8, 8), (8, 3, 3, 3), (16, 8, 8, 8))
    )
    operands = (image, weights) if role == "result" else (image, result)
    params = {"role": role, "window": window, "precision": "highest"}
    call = jax.jit(lambda a, b: convolution.ordered_cpu(a, b, **params))
    # XLA fused the padding into the copy of each of nine taps, which then took twice as long.
    assert call.lower(*operands).compile().as_text().count(" pad(") == 1
