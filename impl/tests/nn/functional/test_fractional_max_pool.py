"""fractional_max_pool2d and fractional_max_pool3d; ``test_pooling`` has properties of all pools."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support import window_sums
from impl.tests.nn.support.arrays import computed, normal, ones
from impl.tests.nn.support.derivatives import assert_derivatives
from impl.tests.nn.support.maxima import (
    assert_as_references,
    assert_torch_has,
    pooled,
    with_ties,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call
from impl.tests.support.sums import in_order

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

OPS = {"fractional_max_pool2d": 2, "fractional_max_pool3d": 3}
#: The number of calls whose reference is compared with PyTorch.
CALLS = 100
COMPUTED = computed(CALLS, {2: 5, 3: 3})


def drawn_calls(dims):
    """Yields inputs and the arguments after them: kernel, output size, ratio and samples."""
    rng = np.random.default_rng(dims)
    for number in range(CALLS):
        sizes = rng.integers(3, [70, 12, 8][dims - 1], dims)
        kernel = rng.integers(1, np.minimum(sizes, 5))
        lengths = rng.integers(1, sizes - kernel + (dims == 2) + 1)
        shape = (2, 3, *map(int, sizes))[number % 2 :]
        # There may be samples for more examples than the input has.
        samples = rng.random((3 if number % 7 == 0 else 2 - number % 2, 3, dims), np.float32)
        samples.flat[0] = [0, 0.5, 1 - 2**-24][number % 3]
        arguments = [tuple(map(int, kernel)), tuple(map(int, lengths)), None]
        if number % 4 == 0:
            arguments = [int(kernel.min()), int(lengths.min()), None]
        elif number % 4 == 1:
            # The integer part of a size times this ratio is the length.
            ratio = tuple(float(n + 0.5) / size for n, size in zip(lengths, sizes, strict=True))
            arguments[1:] = [None, ratio]
        yield with_ties(shape), (*arguments, samples)


def reference(dims, x, kernel, lengths, ratio, samples):
    sizes = x.shape[-dims:]
    kernels = window_sums.of_each_dimension(kernel, dims)
    if lengths is None:
        lengths = tuple(int(n * r) for n, r in zip(sizes, ratio, strict=True))
    lengths = window_sums.of_each_dimension(lengths, dims)

    def windows(lane):
        of_lane = samples.reshape(-1, dims)[lane]
        of_lane = of_lane[::-1] if dims == 2 else of_lane
        return [
            windows_of_dimension(*numbers)
            for numbers in zip(sizes, kernels, lengths, of_lane, strict=True)
        ]

    return pooled(x, windows)


def windows_of_dimension(size, kernel, length, sample):
    """Returns the indices of windows that begin at random steps, in the sample's precision."""
    real = type(sample)
    starts = [size - kernel]
    if length > 1:
        alpha = real(size - kernel) / real(length - 1)
        steps = [int((real(i) + sample) * alpha) - int(sample * alpha) for i in range(length - 1)]
        starts = [*steps, size - kernel]
    return [list(range(start, start + kernel)) for start in starts]


def with_indices(op, kernel, lengths, ratio, samples):
    """Returns a function of the input alone, which returns indices too."""
    return lambda x: getattr(F, op)(
        x, kernel, lengths, ratio, return_indices=True, _random_samples=samples
    )


@pytest.mark.parametrize("op", OPS)
def test_values_indices_and_gradients(op):
    drawn = list(drawn_calls(OPS[op]))[: COMPUTED[OPS[op]]]
    calls = [with_indices(op, *arguments) for _, arguments in drawn]
    references = [reference(OPS[op], x, *arguments) for x, arguments in drawn]
    assert_as_references(calls, [x for x, _ in drawn], references)


@pytest.mark.parametrize("op", OPS)
def test_pytorch_has_the_values_of_the_reference(op):
    torch = pytest.importorskip("torch")
    for x, (*arguments, samples) in drawn_calls(OPS[op]):
        want = reference(OPS[op], x, *arguments, samples)
        function = getattr(torch.nn.functional, op)
        call = functools.partial(function, _random_samples=torch.tensor(samples))
        assert_torch_has(torch, call, arguments, x, want)


def test_fractional_max_pool2d_draws_samples_from_a_key():
    x, key = normal((2, 3, 9, 8)), jax.random.key(7)
    samples = jax.random.uniform(key, (6, 2)).reshape(2, 3, 2)
    given = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, _random_samples=samples))
    drawn = jax.jit(lambda x, key: F.fractional_max_pool2d(x, 3, 4, key=key))
    want = given(x, samples)
    assert_same_bits(drawn(x, key), want)
    assert (drawn(x, jax.random.key(8)) != want).any()
    with pytest.raises(ValueError, match=r"shape \[1, 3, 2\]; got neither"):
        F.fractional_max_pool2d(x[0], 3, 4)


def test_invalid_samples_of_fractional_max_pool2d_read_nothing_outside_the_input():
    x = with_ties((2, 1, 9, 8))
    op = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, None, True, samples))
    for sample in (np.nan, -3.5, 7.0, np.inf, 1e30):
        out, indices = op(x, np.full((2, 1, 2), sample, np.float32))
        indices = np.asarray(indices).reshape(2, -1)
        assert indices.min() >= 0
        assert indices.max() < 72
        assert_same_bits(np.take_along_axis(x.reshape(2, -1), indices, 1), out.reshape(2, -1))


def test_long_windows_of_fractional_max_pool2d():
    # A loop reads windows of this length.
    x = with_ties((2, 3, 60, 4))
    x[0, 1, 20:] = np.nan
    samples = np.random.default_rng(0).random((2, 3, 2), np.float32)
    arguments = ((50, 2), (9, 2), None, samples)
    call = with_indices("fractional_max_pool2d", *arguments)
    assert_as_references([call], [x], [reference(2, x, *arguments)])


@pytest.mark.usefixtures("lowering")
def test_bits_of_a_gradient_of_fractional_max_pool2d():
    x = spread(np.random.default_rng(0), (2, 2, 9, 10))
    cotangent = spread(np.random.default_rng(1), (2, 2, 6, 7))
    samples = np.random.default_rng(2).random((2, 2, 2), np.float32)
    arguments = ((3, 3), (6, 7), None, samples)
    indices = reference(2, x, *arguments)[1].reshape(4, -1)
    zeros = np.zeros(90, np.float32)
    want = [in_order(zeros, i, c) for i, c in zip(indices, cotangent.reshape(4, -1), strict=True)]

    @jax.jit
    def run(x, cotangent):
        op = with_indices("fractional_max_pool2d", *arguments)
        return jax.vjp(lambda x: op(x)[0], x)[1](cotangent)[0]

    assert_same_bits(run(x, cotangent), np.stack(want).reshape(x.shape))


def test_fractional_max_pool2d_of_float64():
    rng = np.random.default_rng(0)
    x, samples = rng.standard_normal((1, 2, 6, 7)), rng.random((1, 2, 2))
    arguments = (3, 4, None, samples)
    call = with_indices("fractional_max_pool2d", *arguments)
    with jax.enable_x64(True):

        @jax.jit
        def run(x):
            out, pullback, indices = jax.vjp(call, x, has_aux=True)
            return out, indices, pullback(jnp.ones_like(out))[0]

        out, indices, gradient = run(x)
        want, want_indices, want_pullback = reference(2, x, *arguments)
        assert_same_bits(out, want)
        assert_same_bits(indices, want_indices)
        np.testing.assert_allclose(gradient, want_pullback(np.ones(want.shape)))
        assert_derivatives(lambda x: call(x)[0] ** 2, (x,))


def test_vmap_over_the_samples_of_fractional_max_pool2d_keeps_the_bits():
    x, samples = normal((1, 2, 7, 6)), np.random.default_rng(0).random((3, 1, 2, 2), np.float32)

    def op(samples):
        return F.fractional_max_pool2d(x, 3, (4, 3), _random_samples=samples)

    assert_same_bits(jax.jit(jax.vmap(op))(samples), np.stack(list(map(op, samples))))


HW, DHW = ones(3, 6, 6), ones(3, 6, 6, 6)
U = ones(1, 3, 2) / 2
#: op, positional arguments, keywords, exception, fragment of the message
BAD: list[Call] = [
    ("fractional_max_pool2d", (ones(1, 2, 3, 6, 6), 2, 3), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("fractional_max_pool2d", (ones(2, 0, 6, 6), 2, 3), {}, RuntimeError, "non-zero size"),
    ("fractional_max_pool3d", (ones(0, 6, 0, 6), 2, 3), {}, RuntimeError, "non-zero size"),
    ("fractional_max_pool2d", (HW, 2), {}, ValueError, "output_ratio, but got neither"),
    ("fractional_max_pool3d", (DHW, 2, -1), {}, RuntimeError, "equal to 0, but got [-1, -1, -1]"),
    ("fractional_max_pool2d", (HW, 2, 6), {}, RuntimeError, "be at most the input's size and 1"),
    ("fractional_max_pool3d", (DHW, 2, 5), {}, RuntimeError, "at most the input's size"),
    ("fractional_max_pool2d", (HW, (2, 7), 1), {}, RuntimeError, "kernel_size [2, 7] is too large"),
    ("fractional_max_pool2d", (HW, (2,), 3), {}, RuntimeError, "'kernel_size' must be an int or 2"),
    ("fractional_max_pool3d", (DHW, (2, 2), 3), {}, RuntimeError, "an int or 3 of them"),
    ("fractional_max_pool2d", (HW, 2, (3, 3, 3)), {}, RuntimeError, "'output_size' must be an int"),
    ("fractional_max_pool2d", (HW, 2.0, 3), {}, TypeError, "'kernel_size' must be int, not float"),
    ("fractional_max_pool2d", (HW, 2, "3"), {}, TypeError, "'output_size' must be int, not str"),
    (
        "fractional_max_pool2d",
        (HW, 2),
        {"output_ratio": (0.5, 0.5, 0.5)},
        ValueError,
        "a number or 2 of them",
    ),
    ("fractional_max_pool2d", (HW.astype(int), 2, 3), {}, NotImplementedError, "for int"),
    *(
        ("fractional_max_pool2d", (HW, 2, 3, None, False, samples), {}, RuntimeError, fragment)
        for samples, fragment in [
            (ones(1, 3, 3), "of shape [1 or more, 3, 2], but got [1, 3, 3]"),
            (ones(1, 2, 2), "but got [1, 2, 2]"),
            (ones(3, 2), "but got [3, 2]"),
            (ones(0, 3, 2), "but got [0, 3, 2]"),
            (ones(1, 3, 2, dtype=np.float16), "the dtype of input, float32, but got float16"),
        ]
    ),
    ("fractional_max_pool2d", (HW, 2, 3, None, False, [0.5]), {}, TypeError, "'_random_samples'"),
]  # fmt: skip
#: Arguments that PyTorch accepts, or that only impl has.
BAD_HERE: list[Call] = [
    ("fractional_max_pool2d", (HW[0], 2, 3), {}, RuntimeError, "got shape [6, 6]"),
    ("fractional_max_pool2d", (HW, 0, 3), {}, RuntimeError, "kernel_size should be greater than"),
    ("fractional_max_pool2d", (HW, 2, 3, 0.5), {}, ValueError, "output_ratio, but got both"),
    ("fractional_max_pool2d", (HW, 2, 3, None, 1), {}, TypeError, "'return_indices' must be bool"),
    ("fractional_max_pool3d", (DHW, 2, 3), {"key": None}, ValueError, "no hidden random state"),
    (
        "fractional_max_pool2d",
        (HW, 2, 3),
        {"key": np.zeros(2, np.uint32), "_random_samples": U},
        ValueError,
        "got both",
    ),
    *(
        ("fractional_max_pool2d", (HW, 2), {"output_ratio": ratio}, ValueError, "between 0 and 1")
        for ratio in (0, 1, 1.5, -0.5, (0.5, 0.0), float("nan"))
    ),
    ("fractional_max_pool3d", (DHW, 2), {"output_ratio": "1"}, TypeError, "number or 3 of them"),
    ("fractional_max_pool2d", (HW, 2), {"output_ratio": True}, TypeError, "not bool"),
]  # fmt: skip


def with_a_key(function):
    """Returns the op with a key for samples, if a call states neither."""

    def call(*arguments, **options):
        if len(arguments) < 6:
            options.setdefault("key", jax.random.key(0))
        return function(*arguments, **options)

    return call


WITH_A_KEY = {op: with_a_key(getattr(F, op)) for op in OPS}


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD
    unlike_torch = BAD_HERE
    functions = WITH_A_KEY
