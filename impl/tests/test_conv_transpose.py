"""conv_transpose1d, conv_transpose2d and conv_transpose3d."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl.tests import _convolutions
from impl.tests._dots import WAYS, exact, random
from impl.tests._support import LOWERINGS, assert_same_bits, bits

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")
RNG = np.random.default_rng(0)
TRIED = 60 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 6


@pytest.mark.parametrize("number", range(TRIED))
def test_values_and_gradients_against_pytorch(number):
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    _convolutions.assert_drawn_as_torch(torch, 2, number, TRIED, transposed=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "int32"])
@pytest.mark.parametrize("way", WAYS)
def test_every_lowering_of_every_dtype(way, dtype):
    x, w, b = exact(RNG, (2, 3, 5), 3), exact(RNG, (3, 4, 2), 3), exact(RNG, (4,))
    want = _convolutions.oracle_of_image(x, w, (6,), (1,), (1,), (0,)) + b[:, None]
    with LOWERINGS[way]():
        out = F.conv_transpose1d(*(value.astype(dtype) for value in (x, w, b)))
    assert_same_bits(out, want.astype(dtype))


def test_taps_are_added_in_their_order():
    stride, dilation, padding = (2, 1), (1, 2), (1, 0)
    x = exact(RNG, (2, 3, 4, 5))
    w = _convolutions.rough(RNG, (3, 2, 4, 3), 1)
    op = jax.jit(lambda x, w: F.conv_transpose2d(x, w, None, stride, padding, (1, 0), 1, dilation))
    out = op(x, w)
    oracle = functools.partial(
        _convolutions.oracle_of_image, x, w, out.shape[2:], stride, dilation, padding
    )
    want = oracle()
    assert bits(oracle(order=slice(None, None, -1))) != bits(want)
    for way in (*WAYS, "seed 1"):
        with LOWERINGS[way]():
            assert_same_bits(op(x, w), want)


def test_it_is_the_gradient_of_a_convolution():
    x, w = exact(RNG, (2, 4, 9, 8)), exact(RNG, (6, 2, 3, 2))
    options = {"stride": (2, 1), "padding": (1, 0), "groups": 2}
    out, pullback = jax.vjp(lambda x: F.conv2d(x, w, **options), x)
    assert_same_bits(F.conv_transpose2d(out, w, **options), pullback(out)[0])
    assert_same_bits(
        F.conv_transpose2d(out[0], w, **options, output_padding=(1, 0))[:, :-1], pullback(out)[0][0]
    )


def test_derivatives_and_batches():
    x, w, b = (random(RNG, shape) for shape in ((1, 2, 3), (2, 1, 2), (2,)))

    def op(x, w, b=None):
        return F.conv_transpose1d(x, w, b, 2, 1, 1, 2, 2)

    with jax.enable_x64(True):
        check_grads(lambda *args: jnp.sin(op(*args)), (x, w, b), order=2, rtol=1e-4)
    x, w = exact(RNG, (3, 1, 2, 4)), exact(RNG, (2, 1, 3, 2))
    one = jax.jit(op)
    want = np.stack([one(x[i], w[:, :, i]) for i in range(3)])
    assert_same_bits(jax.jit(jax.vmap(op, (0, 2)))(x, w), want)
