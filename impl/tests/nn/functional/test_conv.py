"""Convolutions, and their transposes.

Tests: impl.nn.functional._convolution, impl.ops._op.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import whole
from impl.tests.support.programs import gpu_program
from impl.tests.support.refusals import Call, bad_arguments

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
    x, w, b = ones(1, 1, 1025), ones(1, 1, 1), ones(1)
    narrow = [array.astype(jnp.bfloat16) for array in (x, w, b)]
    gradient = jax.jit(lambda *arrays: jax.vjp(F.conv1d, *arrays)[1](cotangent)[2])
    assert gradient(*narrow)[0] == 288


def test_a_gpu_computes_conv1d_of_integers_by_matrix_products():
    # The library's convolution does not support integers.
    x, w = jnp.ones((1, 2, 9), int), jnp.ones((3, 2, 3), int)
    for on in (True, False):
        text = gpu_program(functools.partial(F.conv1d), x, w, on=on)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.convolution" not in text


X, W, SMALL = ones(2, 4, 8, 8), ones(6, 4, 3, 3), ones(1, 4, 1, 1)
#: op, input and weight and perhaps bias, options, exception, fragment of the message
BAD: list[Call] = [
    ("conv2d", ([1.0], W), TypeError, "argument 'input' must be a jax.Array"),
    ("conv2d", (X, [1.0]), TypeError, "argument 'weight' must be"),
    ("conv2d", (X, W, [1.0]), TypeError, "argument 'bias' must be"),
    ("conv2d", (X[0, 0], W), RuntimeError, "3D (unbatched) or 4D (batched) input, but got"),
    ("conv1d", (X, W), RuntimeError, "input of size: [2, 4, 8, 8]"),
    ("conv3d", (X[0], W), RuntimeError, "4D (unbatched) or 5D (batched) input"),
    ("conv2d", (X, W[0]), RuntimeError, "Expected 4D weight, but got weight of size: [4, 3"),
    ("conv2d", (X[:, :3], W), RuntimeError, "to have 4 channels, but got 3 channels instead"),
    ("conv2d", (X, W), {"groups": 0}, RuntimeError, "non-positive groups is not supported, got 0"),
    ("conv2d", (X, W), {"groups": -1}, RuntimeError, "non-positive groups"),
    ("conv2d", (X, W), {"groups": 1.0}, TypeError, "'groups' must be int, not float"),
    ("conv2d", (X, W), {"groups": 4}, RuntimeError, "weight to be divisible by 4 at dimension 0"),
    ("conv2d", (X, W[:0]), RuntimeError, "weight to be at least 1 at dimension 0"),
    ("conv2d", (X, W[:, :, :0]), RuntimeError, "has no taps"),
    ("conv2d", (X, W), {"stride": 0}, RuntimeError, "non-positive stride is not supported"),
    ("conv2d", (X, W), {"stride": (1, -1)}, RuntimeError, "non-positive stride"),
    ("conv2d", (X, W), {"stride": (1, 1, 1)}, RuntimeError, "an int or 2 of them, but got 3"),
    ("conv2d", (X, W), {"stride": ()}, RuntimeError, "'stride' must be an int or 2 of them"),
    ("conv2d", (X, W), {"stride": True}, TypeError, "'stride' must be int, not bool"),
    ("conv2d", (X, W), {"dilation": 0}, RuntimeError, "non-positive dilation is not supported"),
    ("conv2d", (X, W), {"dilation": 1.5}, TypeError, "'dilation' must be int, not float"),
    ("conv2d", (X, W), {"padding": -1}, RuntimeError, "negative padding is not supported"),
    ("conv2d", (X, W), {"padding": 1.0}, TypeError, "'padding' must be int, not float"),
    ("conv2d", (X, W), {"padding": "full"}, RuntimeError, "'valid', 'same', but got 'full'"),
    (
        "conv2d",
        (X, W),
        {"padding": "same", "stride": 2},
        RuntimeError,
        "padding='same' is not supported for strided convolutions, but got stride [2, 2]",
    ),
    ("conv2d", (SMALL, W), RuntimeError, "Kernel size can't be greater than actual input"),
    ("conv2d", (X, W), {"dilation": 4}, RuntimeError, "per channel: [8, 8]. Kernel size: [9, 9]"),
    ("conv2d", (X[:, :, :0], W), RuntimeError, "per channel: [0, 8]"),
    ("conv2d", (X, W, ones(5)), RuntimeError, "with 6 elements, but got bias of size [5]"),
    ("conv2d", (X, W, ones(6, 1)), RuntimeError, "but got bias of size [6, 1] instead"),
    ("conv2d", (X, W.astype(np.float16)), RuntimeError, "input (float32) and weight (float16)"),
    ("conv2d", (X, W, ones(6, dtype=np.int32)), RuntimeError, "(float32) and bias (int32)"),
    ("conv2d", (X > 0, W > 0), NotImplementedError, "not implemented for bool"),
]
TestBadArguments = bad_arguments(BAD)


def test_no_channels_and_no_rows():
    assert F.conv2d(X[:, :0], W[:, :0]).shape == (2, 6, 6, 6)
    assert F.conv2d(X[:, :, :0], W, padding=2).shape == (2, 6, 2, 10)


T = ones(4, 6, 3, 3)
BAD_OF_CONV_TRANSPOSE: list[Call] = [
    ((X, 1.0), TypeError, "argument 'weight' must be"),
    ((X[0, 0], T), RuntimeError, "3D (unbatched) or 4D (batched)"),
    ((X, T[:3]), RuntimeError, "to have 3 channels, but got 4"),
    ((X, T), {"groups": 3}, RuntimeError, "divisible by 3 at dimension 0"),
    ((X[:, :0], T[:0]), RuntimeError, "weight to be at least 1"),
    ((X, T), {"stride": 0}, RuntimeError, "non-positive stride"),
    ((X, T), {"padding": -1}, RuntimeError, "negative padding"),
    ((X, T), {"padding": "same"}, TypeError, "'padding' must be int, not str"),
    ((X, T), {"output_padding": -1}, RuntimeError, "negative output_padding"),
    ((X, T), {"output_padding": 0.5}, TypeError, "must be int, not float"),
    (
        (X, T),
        {"output_padding": 2, "stride": 2},
        RuntimeError,
        "output padding must be smaller than either stride or dilation, but got",
    ),
    ((X, T, ones(5)), RuntimeError, "with 6 elements, but got bias of"),
    ((X[:, :, :0], T), RuntimeError, "Only zero batch or zero channel"),
    ((SMALL, T), {"padding": 2}, RuntimeError, "Output size is too small"),
    ((X > 0, T > 0), NotImplementedError, "not implemented for bool"),
]
TestBadArgumentsOfTransposes = bad_arguments(BAD_OF_CONV_TRANSPOSE, op="conv_transpose2d")
