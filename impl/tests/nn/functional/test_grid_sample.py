"""affine_grid and grid_sample; primitives/test_blend.py tests the primitive that it alone uses.

Tests: impl.nn.functional._sampling.
"""

import warnings

import jax
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import normal

F = impl.nn.functional
NAN, INF = float("nan"), float("inf")
pytestmark = pytest.mark.usefixtures("complete")

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def result_and_gradients(*options):
    """Returns a function of an input, a grid and a cotangent to the result and both gradients."""

    def run(x, grid, cotangent):
        out, pullback = jax.vjp(lambda x, grid: F.grid_sample(x, grid, *options), x, grid)
        return out, *pullback(cotangent)

    return run


def in_one_program(calls):
    """Returns a compiled function of the operands of several calls to their results."""

    @jax.jit
    def run(operands):
        return [
            result_and_gradients(*options)(*arrays)
            for options, arrays in zip(calls, operands, strict=True)
        ]

    return run


#: An input and a grid; no sample is equally near to two elements.
INPUTS = normal((2, 3, 3, 4)), normal((2, 4, 3, 2)) * np.float32(0.7)


@pytest.mark.parametrize("padding", PADDINGS)
def test_nan_and_infinite_coordinates_mean_the_first_edge_and_have_no_derivative(padding):
    x = normal((1, 2, 4, 5))
    invalid = [NAN, INF, -INF, 3e38, -1e20]
    grid = np.array([[[[v, 0.1] for v in invalid], [[0.3, v] for v in invalid]]], np.float32)
    finite = np.where(np.isnan(grid), -1, np.clip(grid, -1e3, 1e3))
    if padding == "reflection":
        finite = np.where(np.isinf(grid), -1, finite)
    calls = [(mode, padding, False) for mode in MODES]
    cotangent = normal((1, 2, 2, 5), 1)
    run = in_one_program(calls)
    results, wanted = (run([(x, grid, cotangent)] * len(calls)) for grid in (grid, finite))
    # So far outside, rounding leaves no digit of a reflected coordinate.
    exact = ~np.isin(grid, np.float32([3e38, -1e20])) | (padding != "reflection")
    for got, want in zip(results, wanted, strict=True):
        assert all(np.isfinite(array).all() for array in got)
        outputs = (np.where(exact.all(-1)[:, None], array[0], 0) for array in (got, want))
        np.testing.assert_allclose(*outputs, 1e-5)
        assert not np.asarray(got[2])[~np.isin(grid, np.float32([0.1, 0.3])) & exact].any()


@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_elements_outside_the_input_have_no_effect(name):
    x = np.full((1, 2, 5, 5), NAN, np.float32)
    x[..., 1:4, 1:4] = 1
    # A sample in the middle of an element, two far outside, and one half outside the corner.
    grid = np.array([[[[0, 0], [9, 0.1], [-40, 7], [1.3, 1.3]]]], np.float32)
    cotangent = np.array([1, INF, -INF, INF], np.float32) * np.ones((1, 2, 1, 1), np.float32)
    with LOWERINGS[name]():
        calls = [(mode, "zeros", False) for mode in MODES]
        results = in_one_program(calls)([(x, grid, cotangent)] * len(calls))
    for mode, result in zip(MODES, results, strict=True):
        out, of_x, of_grid = map(np.asarray, result)
        np.testing.assert_array_equal(out[0, 0, 0, 1:3], [0, 0])
        assert not of_grid[0, 0, 1:3].any()
        if mode == "bicubic":
            continue  # It reads NaN with a weight of 0.
        np.testing.assert_array_equal(out[0, 0, 0, 0], 1)
        of_x = of_x[0, 0]
        untouched = np.ones((5, 5), bool)
        untouched[2:4, 2:4] = untouched[4, 4] = False
        assert_same_bits(of_x[untouched], np.zeros(untouched.sum(), np.float32))
        assert of_x[2, 2] == 1


def test_second_derivatives():
    x, grid = INPUTS
    with jax.enable_x64(True):
        function = jax.jit(lambda x, grid: (F.grid_sample(x, grid) ** 2).sum())
        arrays = x.astype(float), grid.astype(float)
        check_grads(function, arrays, order=2, modes=["rev"], rtol=1e-4, atol=1e-4)


def test_defaults():
    x, grid = INPUTS
    by_default, explicit = jax.jit(
        lambda x, grid: (F.grid_sample(x, grid), F.grid_sample(x, grid, "bilinear", "zeros", False))
    )(x, grid)
    assert_same_bits(by_default, explicit)


@pytest.mark.parametrize("argnums", [(0,), (1,), (0, 1)], ids=["input", "grid", "both"])
def test_a_gradient_by_either_argument_raises_or_warns_once(argnums):
    x, grid = INPUTS

    def gradient(x, grid):
        return jax.grad(lambda *args: F.grid_sample(*args).sum(), argnums)(x, grid)

    with impl.deterministic(True, profile="torch-2.12"):
        impl.testing.lower(F.grid_sample, x, grid)
        with pytest.raises(RuntimeError, match="grid_sampler_2d_backward_cuda does not have"):
            impl.testing.lower(gradient, x, grid)
        jax.jit(gradient).lower(x, grid)
    with impl.deterministic(True, warn_only=True, profile="torch-2.12"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            impl.testing.lower(gradient, x, grid)
        assert len([warning for warning in caught if warning.category is UserWarning]) == 1


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
