"""interpolate, affine_grid and grid_sample.

Tests: impl.nn.functional._resampling, impl.nn.functional._windows, impl.nn.functional._sampling.
"""

import functools
import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl._core import numerics
from impl.nn.functional._resampling import Axis
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import normal

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


def test_elements_of_weight_zero_are_not_read():
    x = np.array([[[np.inf, 1, np.nan, 2, 3]]], np.float32)
    calls = [("linear", x, 9), ("bilinear", x[None], (1, 9)), ("bicubic", x[None], (1, 9))]

    @jax.jit
    def run(operands):
        return [
            (
                F.interpolate(x, size, mode=mode, align_corners=True),
                F.interpolate(x, x.shape[2:], mode=mode),
            )
            for x, (mode, _, size) in zip(operands, calls, strict=True)
        ]

    operands = [x for _, x, _ in calls]
    for (larger, unchanged), operand in zip(run(operands), operands, strict=True):
        assert_same_bits(np.reshape(larger, 9)[::2], x[0, 0])
        assert_same_bits(unchanged, operand)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_uint8(mode, antialias, torch):
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 9, 8)).astype(np.uint8)
    options = {"mode": mode, "size": (5, 13), "antialias": antialias}
    got = np.asarray(jax.jit(lambda x: F.interpolate(x, **options))(x))
    assert got.dtype == np.uint8
    want = torch.nn.functional.interpolate(torch.tensor(x), **options).numpy().astype(int)
    assert np.abs(got - want).max() <= 1  # Its weights have 16 bits.


@pytest.mark.parametrize(
    ("sizes", "size", "options"),
    [
        ((28, 28), 56, {"mode": "bilinear"}),
        ((56, 56), 50, {"mode": "bilinear", "antialias": True}),
        # Not bicubic: where XLA compiles fast, it stores the products of four reads.
        ((12, 12, 12), 17, {"mode": "trilinear"}),
    ],
)
def test_memory_is_that_of_the_results_between_dimensions(sizes, size, options):
    """No product is stored."""
    dims = len(sizes)
    m = (size,) * dims
    # The results between dimensions: the forward pass computes the last dimension first, and the
    # gradient the first one.
    between = [math.prod(sizes[:k] + m[k:]) for k in range(1, dims)] * 2
    allowed = 4 * 16 * sum(sorted(between)[-min(2, dims - 1) :]) * 1.05
    # On older releases of JAX, XLA copies the operand when it rounds the products of a caller.
    copies = 0 if numerics.FENCES_HOLD else 1

    def op(x):
        return F.interpolate(x, size, **options)

    for function, shape in (
        (op, (1, 16, *sizes)),
        (lambda ct: jax.vjp(op, jnp.zeros((1, 16, *sizes)))[1](ct)[0], (1, 16, *m)),
    ):
        compiled = jax.jit(function).lower(jax.ShapeDtypeStruct(shape, np.float32)).compile()
        operand = copies * 4 * math.prod(shape)
        assert compiled.memory_analysis().temp_size_in_bytes <= allowed + operand


#: Some factors are rounded as floats.
FACTORS = (1 / 3, 2.6, 0.7, 1.1, 2 / 3, 0.3, 3.3, 1.7, 2.0, 0.5, 1.0, 2.05)
#: Length of the input, length of the result, the caller's factor or None.
AXES = [
    (n, int(n * factor), factor if by_factor else None)
    for n, factor, by_factor in itertools.product((1, 3, 10, 56, 199), FACTORS, (False, True))
    if int(n * factor)
]


def dense(table):
    """Returns a window table as a matrix of weights."""
    out = np.zeros((table.outputs, table.inputs))
    rows = np.arange(table.outputs)
    for column in range(table.index.shape[1]):
        weight = 1 if table.weight is None else table.weight[:, column]
        index = table.index[:, column]
        out[rows, index] += np.where(index >= 0, weight, 0)
    return out


def tables_of(axis):
    """Yields a mode, its options and its window table."""
    n, m, factor = axis.inputs, axis.outputs, axis.factor
    yield "linear", {}, axis.linear()
    yield "bicubic", {}, axis.cubic()
    yield "bilinear", {"antialias": True}, axis.antialiased(cubic=False)
    yield "bicubic", {"antialias": True}, axis.antialiased(cubic=True)
    # If a factor is not the ratio of the sizes, and a size stays or doubles, PyTorch has kernels
    # that use the ratio and kernels that use the factor.
    ambiguous = factor and factor != m / n and m in (n, 2 * n)
    if not axis.aligned and not ambiguous:
        yield "nearest", None, axis.nearest(exact=False)
        yield "nearest-exact", None, axis.nearest(exact=True)


@pytest.mark.parametrize("precision", [np.float32, np.float64], ids=lambda p: p.__name__)
def test_indices_and_weights_of_interpolate_are_those_of_pytorch(precision, torch):
    close = {"rtol": 0, "atol": 4e-6 if precision is np.float32 else 1e-13}
    dtype = torch.float32 if precision is np.float32 else torch.float64
    for (n, m, factor), aligned in itertools.product(AXES, (False, True)):
        for mode, options, table in tables_of(Axis(n, m, factor, aligned, precision)):
            # PyTorch's result for a unit matrix is the matrix of its weights.
            x = torch.eye(n, dtype=dtype)
            size = {"size": m} if factor is None else {"scale_factor": factor}
            if mode.startswith("bi"):
                x = x[:, None, None]
                size = {name: (1, value) for name, value in size.items()}
            else:
                x = x[:, None]
            keywords = {} if options is None else {"align_corners": aligned, **options}
            want = torch.nn.functional.interpolate(x, mode=mode, **size, **keywords)
            want = want.reshape(n, m).T.numpy()
            message = str((mode, n, m, factor, aligned))
            if "nearest" in mode:
                np.testing.assert_array_equal(dense(table), want, err_msg=message)
            else:
                np.testing.assert_allclose(dense(table), want, err_msg=message, **close)


def test_the_nearest_element_of_interpolate_depends_on_the_precision():
    wanted = {
        dtype: Axis(98, 166, None, False, dtype).nearest(exact=False).index[:, 0].tolist()
        for dtype in (np.float32, np.float64)
    }
    assert wanted[np.float32] != wanted[np.float64]
    with jax.enable_x64(True):
        for dtype, index in wanted.items():
            assert (
                F.interpolate(np.arange(98, dtype=dtype)[None, None], 166)[0, 0].tolist() == index
            )
    narrow = F.interpolate(np.arange(98, dtype=np.float16)[None, None], 166)[0, 0]
    assert narrow.tolist() == wanted[np.float32]


@pytest.mark.parametrize(
    "op",
    [
        lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1),
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"),
        lambda x: F.pad(x, (4, 3, 2, 4), "reflect"),
    ],
    ids=["avg_pool2d", "interpolate", "pad"],
)
def test_the_tangent_of_a_linear_op_has_its_bits(op):
    x, t = normal((3, 2, 5, 6)), normal((3, 2, 5, 6), 1)
    want, tangent = jax.jit(lambda x, t: (op(t), jax.jvp(op, (x,), (t,))[1]))(x, t)
    assert_same_bits(tangent, want)


NAN, INF = float("nan"), float("inf")

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def by_modes(x, grid, cotangent, padding):
    """Returns the result of each mode and both gradients, by one program."""

    @jax.jit
    def run(x, grid, cotangent):
        results = []
        for mode in MODES:
            call = functools.partial(F.grid_sample, mode=mode, padding_mode=padding)
            out, pullback = jax.vjp(functools.partial(call, align_corners=False), x, grid)
            results.append((out, *pullback(cotangent)))
        return results

    return run(x, grid, cotangent)


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
    cotangent = normal((1, 2, 2, 5), 1)
    results, wanted = (by_modes(x, g, cotangent, padding) for g in (grid, finite))
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
        results = by_modes(x, grid, cotangent, "zeros")
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
