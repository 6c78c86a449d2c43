"""lp_pool1d and lp_pool2d; ``test_pooling`` has the properties of all pools."""

import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import ones
from impl.tests.nn.support.programs import results_and_gradients
from impl.tests.nn.support.window_sums import CLOSE
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
INF = float("inf")
pytestmark = pytest.mark.usefixtures("complete")

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
