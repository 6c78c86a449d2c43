"""affine_grid."""

import warnings

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal
from impl.tests.nn.support.derivatives import assert_derivatives
from impl.tests.nn.support.programs import results_and_gradients
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArgumentsUnlikeTorch, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

SIZES = [(2, 3, 4, 5), (1, 1, 1, 3), (2, 1, 2, 4, 3)]


def test_values_and_gradients_are_as_in_pytorch():
    torch = pytest.importorskip("torch")
    drawn = [(size, align) for size in SIZES for align in (True, False)]
    calls, operands, cotangents = [], [], []
    for size, align in drawn:
        dims = len(size) - 2
        calls.append(lambda t, size=size, align=align: F.affine_grid(t, size, align))
        operands.append((normal((size[0], dims, dims + 1)),))
        cotangents.append(normal((size[0], *size[2:], dims), 1))
    results = results_and_gradients(calls, operands, cotangents)
    for (out, gradient), call, (theta,), cotangent in zip(
        results, drawn, operands, cotangents, strict=True
    ):
        tensor = torch.tensor(theta, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = torch.nn.functional.affine_grid(tensor, *call)
        np.testing.assert_allclose(
            out, want.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=str(call)
        )
        (want,) = torch.autograd.grad(want, tensor, torch.tensor(cotangent))
        np.testing.assert_allclose(gradient, want.numpy(), rtol=1e-5, atol=1e-5, err_msg=str(call))


def test_the_default_of_align_corners_is_false():
    theta = normal((1, 2, 3))
    assert_same_bits(F.affine_grid(theta, (1, 1, 2, 3)), F.affine_grid(theta, [1, 1, 2, 3], False))


def test_with_grid_sample_the_identity_returns_the_input():
    x, theta = normal((1, 2, 4, 3)), np.eye(2, 3, dtype=np.float32)[None]

    @jax.jit
    def run(x):
        return [
            F.grid_sample(x, F.affine_grid(theta, x.shape, align), align_corners=align)
            for align in (True, False)
        ]

    for got in run(x):
        np.testing.assert_allclose(got, x, atol=1e-6)


def test_derivatives_of_grid_sample_by_the_matrices():
    x, theta = normal((2, 1, 4, 5)).astype(np.float64), normal((2, 2, 3)) / 4
    assert_derivatives(
        lambda t: F.grid_sample(x, F.affine_grid(t, x.shape), "bicubic"), (theta,), order=1
    )


T = np.zeros((1, 2, 3), np.float32)
#: Positional arguments, exception, fragment of the message
BAD: list[Call] = [
    (([1.0], (1, 1, 2, 2)), TypeError, "'theta' must be"),
    ((T, 4), TypeError, "'size' must be a tuple of ints, not int"),
    ((T, (1, 1, 2.0, 2)), TypeError, "must be int, not float"),
    ((T, (1, 1, 2)), NotImplementedError, "got size [1, 1, 2]"),
    ((T, (1, 1, 2, 2, 2)), ValueError, "shape Nx3x4"),
    ((T[0], (1, 1, 2, 2)), ValueError, "but got [2, 3]"),
    ((T.astype(int), (1, 1, 2, 2)), ValueError, "floating point type"),
    ((T, (1, 1, 0, 2)), ValueError, "positive output size"),
    ((T, (2, 1, 2, 2)), RuntimeError, "(2), but got 1"),
    ((T, (1, 1, 2, 2), 1), TypeError, "'align_corners' must be bool"),
]


class TestBadArguments(BadArgumentsUnlikeTorch):
    namespace = "nn.functional."
    op = "affine_grid"
    unlike_torch = BAD
