"""conv_transpose1d, conv_transpose2d and conv_transpose3d."""

import functools

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support import convolutions
from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.lowerings import DISTINCT, LOWERINGS
from impl.tests.support.numbers import whole
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


DTYPES = ["bfloat16", "complex64", "int32"]


@pytest.mark.parametrize("name", ["native", "xla", "kernel"])
def test_conv_transpose1d_of_every_dtype_by_every_lowering(name, rng):
    arrays = whole(rng, (2, 3, 5), 3), whole(rng, (3, 4, 2), 3), whole(rng, (4,))
    x, w, b = arrays
    want = convolutions.transposed_convolution(x, w, (6,), (1,), (1,), (0,)) + b[:, None]
    operands = [[array.astype(dtype) for array in arrays] for dtype in DTYPES]
    with LOWERINGS[name]():
        results = jax.jit(lambda operands: [F.conv_transpose1d(*given) for given in operands])(
            operands
        )
    for dtype, got in zip(DTYPES, results, strict=True):
        assert_same_bits(got, want.astype(dtype))


def test_taps_of_conv_transpose2d_are_added_in_their_order(rng):
    stride, dilation, padding = (2, 1), (1, 2), (1, 0)
    x = whole(rng, (2, 3, 4, 5))
    w = convolutions.weights_in_runs(rng, (3, 2, 4, 3), 1)
    op = jax.jit(lambda x, w: F.conv_transpose2d(x, w, None, stride, padding, (1, 0), 1, dilation))
    image = jax.eval_shape(op, x, w).shape[2:]
    reference = functools.partial(
        convolutions.transposed_convolution, x, w, image, stride, dilation, padding
    )
    want = reference()
    assert bits(reference(order=slice(None, None, -1))) != bits(want)
    for name in DISTINCT:
        with LOWERINGS[name]():
            assert_same_bits(op(x, w), want)


def test_conv_transpose2d_is_the_gradient_of_conv2d(rng):
    x, w = whole(rng, (2, 4, 9, 8)), whole(rng, (6, 2, 3, 2))
    options = {"stride": (2, 1), "padding": (1, 0), "groups": 2}

    @jax.jit
    def run(x, w):
        out, pullback = jax.vjp(lambda x: F.conv2d(x, w, **options), x)
        transposed = F.conv_transpose2d(out, w, **options)
        longer = F.conv_transpose2d(out[0], w, **options, output_padding=(1, 0))
        return pullback(out)[0], transposed, longer

    gradient, transposed, longer = run(x, w)
    assert_same_bits(transposed, gradient)
    assert_same_bits(longer[:, :-1], gradient[0])


def conv_transpose1d(x, w, b=None):
    return F.conv_transpose1d(x, w, b, 2, 1, 1, 2, 2)


X, T, SMALL = ones(2, 4, 8, 8), ones(4, 6, 3, 3), ones(1, 4, 1, 1)
#: op, input and weight and perhaps bias, options, exception, fragment of the message
BAD: list[Call] = [
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

EMPTY = [
    ("conv_transpose2d", [(0, 4, 8, 8), T.shape], {}, (0, 6, 10, 10)),
    ("conv_transpose2d", [(4, 1, 1), T.shape], {"padding": (1, 0)}, (6, 1, 3)),
]


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD


@pytest.mark.parametrize(("op", "shapes", "options", "result"), EMPTY)
def test_empty_and_unbatched_arrays(op, shapes, options, result):
    function = functools.partial(getattr(F, op), **options)
    assert jax.jit(function)(*(ones(*shape) for shape in shapes)).shape == result


def test_an_empty_batch_with_a_bias():
    convolutions.assert_empty_batch(F.conv_transpose1d, ones(2, 3, 2), (0, 3, 6))
