"""affine_grid: values, gradients, and what it is for."""

import re
import warnings

import jax
import numpy as np
import pytest
from jax.test_util import check_grads

import impl

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


def array(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 1, 1, 3), (2, 1, 2, 4, 3)], ids=str)
def test_maps_and_their_gradients_are_those_of_pytorch(size, align):
    torch = pytest.importorskip("torch")
    dims = len(size) - 2
    theta = array((size[0], dims, dims + 1))
    ct = array((size[0], *size[2:], dims), 1)
    out, pullback = jax.vjp(jax.jit(lambda t: F.affine_grid(t, size, align)), theta)
    leaf = torch.tensor(theta, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = torch.nn.functional.affine_grid(leaf, size, align)
    np.testing.assert_allclose(out, want.detach().numpy(), rtol=1e-5, atol=1e-6)
    (back,) = torch.autograd.grad(want, leaf, torch.tensor(ct))
    np.testing.assert_allclose(pullback(ct)[0], back.numpy(), rtol=1e-5, atol=1e-5)


def test_the_identity_samples_every_element():
    x = array((1, 2, 4, 3))
    theta = np.eye(2, 3, dtype=np.float32)[None]
    for align in (True, False):
        grid = F.affine_grid(theta, x.shape, align)
        np.testing.assert_allclose(F.grid_sample(x, grid, align_corners=align), x, atol=1e-6)


def test_a_spatial_transformer_learns_from_its_maps():
    x, theta = array((2, 1, 4, 5)), array((2, 2, 3)) / 4
    with jax.enable_x64(True):
        check_grads(
            jax.jit(lambda t: F.grid_sample(x.astype("d"), F.affine_grid(t, x.shape), "bicubic")),
            (theta.astype(np.float64),),
            order=1,
            modes=("fwd", "rev"),
            eps=1e-6,
        )


T = np.zeros((1, 2, 3), np.float32)
#: Positional arguments, exception, fragment of the message
BAD = [
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


@pytest.mark.parametrize(("args", "error", "said"), BAD)
def test_bad_arguments(args, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        F.affine_grid(*args)
    assert str(caught.value).startswith("affine_grid(): ")
