"""affine_grid."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal
from impl.tests.nn.support.derivatives import assert_derivatives
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArgumentsUnlikeTorch, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


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
