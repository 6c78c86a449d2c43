"""lp_pool1d and lp_pool2d; ``test_pooling`` has the properties of all pools."""

import itertools

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support import window_sums
from impl.tests.nn.support.arrays import THOROUGH, normal, ones
from impl.tests.nn.support.derivatives import assert_derivatives
from impl.tests.nn.support.programs import results_and_gradients
from impl.tests.nn.support.window_sums import CLOSE, assert_as_references, assert_torch_has
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
INF = float("inf")
pytestmark = pytest.mark.usefixtures("complete")

OPS = {"lp_pool1d": 1, "lp_pool2d": 2}
#: The number of calls whose reference is compared with PyTorch, and how many of them impl computes.
CALLS = 100
COMPUTED = CALLS if THOROUGH else 12


def drawn_calls(dims):
    """Yields positive inputs and arguments after them; the input is too small for some."""
    rng = np.random.default_rng(dims)
    for number in range(CALLS):
        sizes = [(11,), (4,)] if dims == 1 else [(7, 6), (3, 9)]
        shape = (2, 3, *sizes[number % 2])[number // 2 % 2 :]
        power = [1, 2, 3.0, 2.5, 4, 0.5, -1, -2.0, INF, -INF][number % 10]
        kernel, stride = (tuple(map(int, rng.integers(1, 5, dims))) for _ in range(2))
        if dims == 1 or number % 3 == 0:
            kernel, stride = kernel[0], stride[0]
        arguments = (power, kernel, None if number % 4 == 0 else stride, bool(rng.integers(2)))
        yield np.exp(normal(shape)), arguments


def reference(dims, x, power, kernel, stride, ceil):
    """Returns the result and a gradient function; None if the input is too small.

    No two elements of ``x`` have the same magnitude.
    """
    sizes = x.shape[-dims:]
    kernels = window_sums.of_each_dimension(kernel, dims)
    strides = window_sums.of_each_dimension(kernel if stride is None else stride, dims)
    windows = [
        window_sums.fixed(n, k, s, 0, ceil) for n, k, s in zip(sizes, kernels, strides, strict=True)
    ]
    if not all(windows):
        return None
    member = window_sums.membership(windows, sizes)
    rows = x.astype(np.float64).reshape(-1, 1, member.shape[1])
    if np.isinf(power):
        magnitude = np.where(member > 0, np.abs(rows), -power)
        best = magnitude.argmax(-1) if power > 0 else magnitude.argmin(-1)
        out = np.take_along_axis(magnitude, best[..., None], -1)[..., 0]
        slope = np.eye(member.shape[1])[best] * np.sign(rows)
    else:
        weight = member * (np.prod(kernels) / member.sum(-1, keepdims=True))
        total = (weight * rows**power).sum(-1)
        out = total ** (1 / power)
        slope = weight * (out / total)[..., None] * rows ** (power - 1)
    shape = (*x.shape[:-dims], *map(len, windows))

    def pullback(cotangent):
        return np.einsum("lo,loi->li", cotangent.reshape(out.shape), slope).reshape(x.shape)

    return out.reshape(shape), pullback


@pytest.mark.parametrize("op", OPS)
def test_values_and_gradients(op):
    calls, references = [], []
    for x, arguments in itertools.islice(drawn_calls(OPS[op]), COMPUTED):
        want = reference(OPS[op], x, *arguments)
        if want is None:
            with pytest.raises(RuntimeError, match="too small"):
                getattr(F, op)(x, *arguments)
        else:
            calls.append((x, arguments))
            references.append(want)
    assert_as_references(getattr(F, op), calls, references)


@pytest.mark.parametrize("op", OPS)
def test_pytorch_has_the_values_of_the_reference(op):
    torch = pytest.importorskip("torch")
    function = getattr(torch.nn.functional, op)
    for x, arguments in drawn_calls(OPS[op]):
        want = reference(OPS[op], x, *arguments)
        if want is not None:
            assert_torch_has(torch, function, arguments, x, want, rtol=1e-4)


#: Windows of two elements: zeros, negative numbers, infinities, NaNs and mixtures.
SIGNED = np.array(
    [[0, 0, 1, 2], [0, 0, -1, 2], [0, 3, -1, -2], [-3, 3, -0.0, 0], [1, INF, np.nan, np.nan]],
    np.float32,
)
POWERS = [1, 1.5, 2, 2.0, 3, 4, 0.5, -1, -2, INF, -INF]


def test_lp_pool1d_of_zeros_and_negative_numbers_is_as_in_pytorch():
    torch = pytest.importorskip("torch")
    calls = [lambda x, power=power: F.lp_pool1d(x, power, 2) for power in POWERS]
    operands = [(SIGNED,)] * len(calls)
    results = results_and_gradients(calls, operands, [ones(5, 2)] * len(calls))
    finite = np.isfinite(SIGNED)
    for power, (out, gradient) in zip(POWERS, results, strict=True):
        tensor = torch.tensor(SIGNED, requires_grad=True)
        want = torch.nn.functional.lp_pool1d(tensor, power, 2)
        want_gradient = torch.autograd.grad(want.sum(), tensor)[0]
        np.testing.assert_allclose(out, want.detach(), err_msg=str(power), **CLOSE)
        np.testing.assert_allclose(
            gradient[finite], want_gradient[finite], err_msg=str(power), **CLOSE
        )


def test_the_gradient_of_lp_pool1d_is_zero_if_the_sum_is_zero():
    x = np.array([[0, 0, 0, 2], [1, -1, 3, 0]], np.float32)
    calls = [lambda x, power=power: F.lp_pool1d(x, power, 2) for power in (1, 3)]
    results = results_and_gradients(calls, [(x,)] * 2, [ones(2, 2)] * 2)
    for (_, gradient), want in zip(
        results, [[[0, 0, 1, 1], [0, 0, 1, 1]], [[0, 0, 0, 1], [0, 0, 1, 0]]], strict=True
    ):
        np.testing.assert_allclose(gradient, want, rtol=1e-6)


def test_lp_pool2d_gives_the_gradient_to_the_first_of_equal_elements():
    x = np.array([[[-2, 2, 2], [2, -2, 2]]], np.float32)
    calls = [lambda x, power=power: F.lp_pool2d(x, power, (2, 3)) for power in (INF, -INF)]
    for out, gradient in results_and_gradients(calls, [(x,)] * 2, [ones(1, 1, 1)] * 2):
        assert out.tolist() == [[[2]]]
        assert gradient.tolist() == [[[-1, 0, 0], [0, 0, 0]]]


def test_lp_pool2d_of_float64():
    x = np.exp(np.random.default_rng(0).standard_normal((2, 5, 6)))
    with jax.enable_x64(True):
        got = jax.jit(lambda x: F.lp_pool2d(x, 2.5, (3, 2), 2, True))(x)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, reference(2, x, 2.5, (3, 2), 2, True)[0], rtol=1e-14)
    assert_derivatives(lambda x: F.lp_pool2d(x, 3, (3, 2), 2, True), (x[:1, :4, :3],))


L, HW = ones(2, 3, 6), ones(3, 6, 6)
#: op, positional arguments, exception, fragment of the message
BAD: list[Call] = [
    ("lp_pool1d", (ones(6), 2, 2), RuntimeError, "2 or 3 (batch mode)"),
    ("lp_pool2d", (ones(1, 1, 1, 6, 6), 2, 2), RuntimeError, "3 or 4 (batch mode)"),
    ("lp_pool2d", (ones(2, 0, 6), 2, 2), RuntimeError, "non-zero size"),
    ("lp_pool1d", (L, 0, 2), ZeroDivisionError, "norm_type must not be zero"),
    ("lp_pool2d", (HW, "2", 2), TypeError, "'norm_type' must be a number, not str"),
    ("lp_pool1d", (L, None, 2), TypeError, "must be a number, not NoneType"),
    ("lp_pool1d", (L, 2, 0), RuntimeError, "kernel_size should be greater than zero"),
    ("lp_pool2d", (HW, 2, 2, 0), RuntimeError, "stride should be greater than zero"),
    ("lp_pool1d", (L, 2, 9), RuntimeError, "too small"),
    ("lp_pool2d", (HW, 2, 2.0), TypeError, "'kernel_size' must be int, not float"),
    ("lp_pool1d", (L, 2, 2, 2, 1), TypeError, "'ceil_mode' must be bool, not int"),
    ("lp_pool1d", (L.astype(np.int32), 2, 2), NotImplementedError, "not implemented for int32"),
    ("lp_pool2d", (HW.astype(np.complex64), 2, 2), NotImplementedError, "for complex64"),
]  # fmt: skip
#: PyTorch takes anything for an array here, and fails in the functions that it calls.
OWN: list[Call] = [
    ("lp_pool1d", ([1.0], 2, 1), TypeError, "'input' must be"),
]


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD
    unlike_torch = OWN
