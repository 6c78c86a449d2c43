"""Under ``portable`` pools, ``interpolate`` and ``pad`` have the exact sums of their definition."""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from ml_dtypes import bfloat16

import impl
from impl.nn.functional._resampling import Axis
from impl.tests.nn.support import window_sums
from impl.tests.nn.support.maxima import pooled
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from spec import oracles

F = impl.nn.functional
SIZES = (7, 11)
pytestmark = pytest.mark.once


class Linear(NamedTuple):
    """A linear op of the last two dimensions.

    Attributes:
        call: Calls the op.
        factors: The factor of each element of each window, by dimension: [windows, elements].
        divisor: The divisor of each sum.
        joint: Whether the op adds both dimensions at once. Otherwise it rounds after each.
    """

    call: Any
    factors: list[Any]
    divisor: Any = 1
    joint: bool = False


def factors(windows):
    """Returns the number of times that windows read each element, by dimension."""
    return [
        np.array([[window.count(i) for i in range(size)] for window in of_dim])
        for of_dim, size in zip(windows, SIZES, strict=True)
    ]


def weights(of_axis):
    """Returns the weights of an enlargement and a reduction."""
    matrices = []
    for inputs, outputs in zip(SIZES, (10, 5), strict=True):
        table = of_axis(Axis(inputs, outputs, None, False, np.float32))
        matrices.append(np.zeros((outputs, inputs)))
        window, tap = np.nonzero(table.index >= 0)
        matrices[-1][window, table.index[window, tap]] = table.weight[window, tap]
    return matrices


FIXED = [window_sums.fixed(n, *rest) for n, rest in zip(SIZES, ((3, 2, 1), (5, 1, 2)), strict=True)]
EVEN = [window_sums.adaptive(n, m) for n, m in zip(SIZES, (3, 13), strict=True)]
ROWS = [np.pad(np.arange(7), (4, 5), mode) for mode in ("reflect", "edge")]
COLUMNS = [np.pad(np.arange(11), (10, 3), mode) for mode in ("reflect", "edge")]
LINEAR = {
    "avg_pool2d": Linear(
        lambda x: F.avg_pool2d(x, (3, 5), (2, 1), (1, 2)), factors(FIXED), 15, joint=True
    ),
    "adaptive_avg_pool2d": Linear(
        lambda x: F.adaptive_avg_pool2d(x, (3, 13)),
        factors(EVEN),
        window_sums.count_within(EVEN, [(0, 7), (0, 11)]),
    ),
    "one mean": Linear(
        lambda x: F.adaptive_avg_pool2d(x, 1), [np.ones((1, 7)), np.ones((1, 11))], 77
    ),
    "bilinear": Linear(lambda x: F.interpolate(x, (10, 5), mode="bilinear"), weights(Axis.linear)),
    "bicubic": Linear(lambda x: F.interpolate(x, (10, 5), mode="bicubic"), weights(Axis.cubic)),
    "nearest": Linear(
        lambda x: F.interpolate(x, (14, 33)),
        factors([[[i // k] for i in range(k * n)] for k, n in zip((2, 3), SIZES, strict=True)]),
    ),
    **{
        mode: Linear(
            lambda x, mode=mode: F.pad(x, (10, 3, 4, 5), mode),
            factors([rows[:, None].tolist(), columns[:, None].tolist()]),
        )
        for mode, rows, columns in zip(("reflect", "replicate"), ROWS, COLUMNS, strict=True)
    },
}


def sums(values, matrices, joint):
    """Returns exact sums of rounded products, rounded to float32."""
    if joint:
        flat = values.reshape(-1, values.shape[-2] * values.shape[-1])
        matrix = np.kron(*matrices).astype(np.float32)
        total = oracles.nearest((flat[:, None, :] * matrix).transpose(2, 0, 1))
        return total.reshape(*values.shape[:-2], *(len(m) for m in matrices))
    for axis, matrix in matrices:
        along = np.moveaxis(values, axis, -1)[..., None, :] * matrix.astype(np.float32)
        values = np.moveaxis(oracles.nearest(np.moveaxis(along, -1, 0)), -1, axis)
    return values


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_linear_ops(dtype):
    rng = np.random.default_rng(0)
    x = spread(rng, (2, 1, *SIZES), dtype)
    shapes = [(2, 1, *map(len, op.factors)) for op in LINEAR.values()]
    cotangents = [spread(rng, shape, dtype) for shape in shapes]

    @jax.jit
    def run(x, cotangents):
        results = []
        for op, cotangent in zip(LINEAR.values(), cotangents, strict=True):
            out, pullback = jax.vjp(op.call, x)
            results.append((out, pullback(cotangent)[0]))
        return results

    with impl.deterministic(guarantee="portable"):
        results = run(x, cotangents)
    for (name, op), cotangent, (out, gradient) in zip(
        LINEAR.items(), cotangents, results, strict=True
    ):
        reciprocal = (1 / np.asarray(op.divisor)).astype(np.float32)
        dims = [(2, op.factors[0]), (3, op.factors[1])]
        transposed = [(axis, matrix.T) for axis, matrix in dims]
        if op.joint:
            dims, transposed = op.factors, [matrix.T for matrix in op.factors]
        total = sums(x.astype(np.float32), dims if op.joint else dims[::-1], op.joint)
        assert_same_bits(out, (total * reciprocal).astype(dtype), name)
        terms = cotangent.astype(np.float32) * reciprocal
        assert_same_bits(gradient, sums(terms, transposed, op.joint).astype(dtype), name)


def grid(size):
    """Returns x, y and 1 for each element of a plane."""
    along = [(2 * np.arange(n) + 1) / n - 1 for n in size]
    return np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(size)], -1)


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_other_ops(dtype):
    rng = np.random.default_rng(0)
    x, theta = spread(rng, (2, 3, *SIZES), dtype), spread(rng, (2, 2, 3), dtype)
    of_grid = spread(rng, (2, *SIZES, 2), dtype)
    windows = [window_sums.fixed(n, 3, 1) for n in SIZES]
    _, indices, _ = pooled(x.astype(np.float32), windows)
    cotangent = spread(rng, indices.shape, dtype)

    @jax.jit
    def run(x, theta, cotangent, of_grid):
        result, pullback = jax.vjp(lambda t: F.affine_grid(t, (2, 1, *SIZES)), theta)
        of_x = jax.vjp(lambda x: F.max_pool2d(x, 3, 1), x)[1](cotangent)[0]
        return result, pullback(of_grid)[0], of_x

    with impl.deterministic(guarantee="portable"):
        got = run(x, theta, cotangent, of_grid)
    points = grid(SIZES).astype(np.float32).reshape(-1, 3)
    columns, rows = theta.swapaxes(1, 2).astype(np.float32), of_grid.astype(np.float32)
    result = oracles.nearest_product(points[None], columns, np.float32).reshape(of_grid.shape)
    of_theta = oracles.nearest_product(rows.reshape(2, -1, 2).swapaxes(1, 2), points, np.float32)
    lanes = zip(indices.reshape(6, -1), cotangent.reshape(6, -1), strict=True)
    of_x = [
        oracles.nearest_scatter(np.zeros(77, np.float32), index, terms.astype(np.float32))
        for index, terms in lanes
    ]
    want = (result, of_theta, np.reshape(of_x, x.shape))
    for name, one, other in zip(("grid", "theta", "max_pool2d"), got, want, strict=True):
        assert_same_bits(one, other.astype(dtype), name)
