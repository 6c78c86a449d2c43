"""Convolutions, and their transposes.

Tests: impl.nn.functional._convolution, impl.ops._op.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import whole
from impl.tests.support.programs import gpu_program

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


DTYPES = ["float32", "float16", "bfloat16", "complex64", "int32", "uint8"]


@pytest.mark.parametrize("op", [F.conv1d, F.conv_transpose1d])
def test_every_dtype_has_the_sums_of_float32(op, rng):
    channels = (4, 3) if op is F.conv1d else (3, 4)
    arrays = whole(rng, (2, 3, 9), 3), whole(rng, (*channels, 2), 3), whole(rng, (4,))
    operands = [[array.astype(dtype) for array in arrays] for dtype in DTYPES]
    want, *results = jax.jit(lambda operands: [op(*arrays) for arrays in operands])(operands)
    for dtype, got in zip(DTYPES[1:], results, strict=True):
        # JAX converts negative numbers to uint8 by their last bits only from integers.
        source = np.asarray(want).astype(np.int32) if dtype == "uint8" else want
        assert_same_bits(got, jnp.asarray(source).astype(dtype))


def test_the_gradient_of_a_bias_of_bfloat16_is_added_in_float32():
    # 256 plus one for each 32 terms, which a sum kept in bfloat16 would lose.
    cotangent = np.full((1, 1, 1025), 1 / 32, jnp.bfloat16)
    cotangent[0, 0, 0] = 256
    narrow = [np.ones(shape, jnp.bfloat16) for shape in ((1, 1, 1025), (1, 1, 1), 1)]
    gradient = jax.jit(lambda *arrays: jax.vjp(F.conv1d, *arrays)[1](cotangent)[2])
    assert gradient(*narrow)[0] == 288


def test_a_gpu_computes_conv1d_of_integers_by_matrix_products():
    # The library's convolution does not support integers.
    x, w = jnp.ones((1, 2, 9), int), jnp.ones((3, 2, 3), int)
    for on in (True, False):
        text = gpu_program(functools.partial(F.conv1d), x, w, on=on)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.convolution" not in text


X, W = np.ones((2, 4, 8, 8), np.float32), np.ones((6, 4, 3, 3), np.float32)


def test_no_channels_and_no_rows():
    assert F.conv2d(X[:, :0], W[:, :0]).shape == (2, 6, 6, 6)
    assert F.conv2d(X[:, :, :0], W, padding=2).shape == (2, 6, 2, 10)
