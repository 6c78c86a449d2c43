"""Bad arguments of convolutions: PyTorch's exceptions, and what a message says."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import impl

F = impl.nn.functional


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


X, W, T = ones(2, 4, 8, 8), ones(6, 4, 3, 3), ones(4, 6, 3, 3)
SMALL = ones(1, 4, 1, 1)

#: op, input and weight and perhaps bias, keywords, exception, fragment of the message
BAD = [
    ("conv2d", ([1.0], W), {}, TypeError, "argument 'input' must be a jax.Array"),
    ("conv2d", (X, [1.0]), {}, TypeError, "argument 'weight' must be"),
    ("conv2d", (X, W, [1.0]), {}, TypeError, "argument 'bias' must be"),
    ("conv2d", (X[0, 0], W), {}, RuntimeError, "3D (unbatched) or 4D (batched) input, but got"),
    ("conv1d", (X, W), {}, RuntimeError, "input of size: [2, 4, 8, 8]"),
    ("conv3d", (X[0], W), {}, RuntimeError, "4D (unbatched) or 5D (batched) input"),
    ("conv2d", (X, W[0]), {}, RuntimeError, "Expected 4D weight, but got weight of size: [4, 3"),
    ("conv2d", (X[:, :3], W), {}, RuntimeError, "to have 4 channels, but got 3 channels instead"),
    ("conv2d", (X, W), {"groups": 0}, RuntimeError, "non-positive groups is not supported, got 0"),
    ("conv2d", (X, W), {"groups": -1}, RuntimeError, "non-positive groups"),
    ("conv2d", (X, W), {"groups": 1.0}, TypeError, "'groups' must be int, not float"),
    ("conv2d", (X, W), {"groups": 4}, RuntimeError, "weight to be divisible by 4 at dimension 0"),
    ("conv2d", (X, W[:0]), {}, RuntimeError, "weight to be at least 1 at dimension 0"),
    ("conv2d", (X, W[:, :, :0]), {}, RuntimeError, "has no taps"),
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
    ("conv2d", (SMALL, W), {}, RuntimeError, "Kernel size can't be greater than actual input"),
    ("conv2d", (X, W), {"dilation": 4}, RuntimeError, "per channel: [8, 8]. Kernel size: [9, 9]"),
    ("conv2d", (X[:, :, :0], W), {}, RuntimeError, "per channel: [0, 8]"),
    ("conv2d", (X, W, ones(5)), {}, RuntimeError, "with 6 elements, but got bias of size [5]"),
    ("conv2d", (X, W, ones(6, 1)), {}, RuntimeError, "but got bias of size [6, 1] instead"),
    ("conv2d", (X, W.astype(np.float16)), {}, RuntimeError, "input (float32) and weight (float16)"),
    ("conv2d", (X, W, ones(6, dtype=np.int32)), {}, RuntimeError, "(float32) and bias (int32)"),
    ("conv2d", (X > 0, W > 0), {}, NotImplementedError, "not implemented for bool"),
    ("conv_transpose2d", (X, 1.0), {}, TypeError, "argument 'weight' must be"),
    ("conv_transpose2d", (X[0, 0], T), {}, RuntimeError, "3D (unbatched) or 4D (batched)"),
    ("conv_transpose2d", (X, T[:3]), {}, RuntimeError, "to have 3 channels, but got 4"),
    ("conv_transpose2d", (X, T), {"groups": 3}, RuntimeError, "divisible by 3 at dimension 0"),
    ("conv_transpose2d", (X[:, :0], T[:0]), {}, RuntimeError, "weight to be at least 1"),
    ("conv_transpose2d", (X, T), {"stride": 0}, RuntimeError, "non-positive stride"),
    ("conv_transpose2d", (X, T), {"padding": -1}, RuntimeError, "negative padding"),
    ("conv_transpose2d", (X, T), {"padding": "same"}, TypeError, "'padding' must be int, not str"),
    ("conv_transpose2d", (X, T), {"output_padding": -1}, RuntimeError, "negative output_padding"),
    ("conv_transpose2d", (X, T), {"output_padding": 0.5}, TypeError, "must be int, not float"),
    (
        "conv_transpose2d",
        (X, T),
        {"output_padding": 2, "stride": 2},
        RuntimeError,
        "output padding must be smaller than either stride or dilation, but got",
    ),
    ("conv_transpose2d", (X, T, ones(5)), {}, RuntimeError, "with 6 elements, but got bias of"),
    ("conv_transpose2d", (X[:, :, :0], T), {}, RuntimeError, "Only zero batch or zero channel"),
    ("conv_transpose2d", (SMALL, T), {"padding": 2}, RuntimeError, "Output size is too small"),
    ("conv_transpose2d", (X > 0, T > 0), {}, NotImplementedError, "not implemented for bool"),
]


@pytest.mark.parametrize(("op", "arrays", "options", "error", "said"), BAD)
def test_bad_arguments(op, arrays, options, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        getattr(F, op)(*arrays, **options)
    assert str(caught.value).startswith(f"{op}(): ")
    torch = pytest.importorskip("torch", reason="exceptions are compared with PyTorch's")
    tensors = (torch.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays)
    with pytest.raises(error):
        getattr(torch.nn.functional, op)(*tensors, **options)


@pytest.mark.parametrize(
    ("op", "shapes", "options", "shape"),
    [
        ("conv2d", [(0, 4, 8, 8), W.shape], {}, (0, 6, 6, 6)),
        ("conv2d", [(2, 0, 8, 8), (6, 0, 3, 3)], {}, (2, 6, 6, 6)),
        ("conv2d", [(4, 8, 8), W.shape, (6,)], {"stride": (2,)}, (6, 3, 3)),
        ("conv2d", [(2, 4, 0, 8), W.shape], {"padding": 2}, (2, 6, 2, 10)),
        ("conv_transpose2d", [(0, 4, 8, 8), T.shape], {}, (0, 6, 10, 10)),
        ("conv_transpose2d", [(4, 1, 1), T.shape], {"padding": (1, 0)}, (6, 1, 3)),
    ],
)
def test_empty_and_unbatched_arrays(op, shapes, options, shape):
    assert getattr(F, op)(*(jnp.ones(s) for s in shapes), **options).shape == shape
