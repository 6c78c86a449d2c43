"""Operands of products, and the results that the oracles give for any dimension numbers."""

import itertools
import math
from typing import Any

import jax
import ml_dtypes
import numpy as np

from impl.tests.exact._sums import hard_matrix
from spec import oracles

MATRICES = (((1,), (0,)), ((), ()))
IMAGES = ("NCHW", "OIHW", "NCHW")
CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")
#: Strides, padding, dilation of the image and of the kernel.
PLAIN = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
ODD = ((2, 1), ((2, 0), (-1, 3)), (1, 2), (2, 1))
#: The shapes and dimensions of operands, the window, and the groups of features and of images.
CONVOLUTIONS: dict[str, Any] = {
    "plain": ((2, 3, 6, 5), (4, 3, 3, 3), IMAGES, PLAIN, (1, 1)),
    "groups of features": ((2, 6, 5, 4), (3, 2, 2, 4), CHANNELS_LAST, ODD, (2, 1)),
    "groups of images": ((4, 6, 5, 2), (3, 2, 2, 4), CHANNELS_LAST, ODD, (1, 2)),
    "as a gradient": ((2, 6, 3, 4), (2, 3, 4, 2), ("CWNH", "IWOH", "HCNW"), ODD, (1, 1)),
    "a channel a group": ((2, 3, 6, 5), (6, 1, 3, 1), IMAGES, ODD, (3, 1)),
    "one term": ((2, 3, 4, 5), (3, 1, 1, 1), IMAGES, PLAIN, (3, 1)),
    "no positions": ((5, 6), (4, 6), ("NC", "OI", "CN"), ((), (), (), ()), (1, 1)),
}


def rough(rng, shape, dtype=np.float32, binades=24):
    """Returns numbers of many magnitudes, among them zeros of both signs and a subnormal."""
    value = rng.standard_normal(shape) * 2.0 ** rng.integers(-binades, binades + 1, shape)
    value = np.asarray(value, np.float64 if dtype == np.float64 else np.float32)
    if value.size > 3:
        value.flat[:3] = 0.0, -0.0, np.finfo(value.dtype).tiny / 100
    return value.astype(dtype)


def hard_factors(rng, result, dtype=np.float32):
    """Returns pairs of matrices whose products are hard to round, by name.

    Args:
        rng: A generator of NumPy.
        result: The dtype whose rounding they are about.
        dtype: The dtype of the factors: float32, or float64 with more pairs.
    """
    more = far_factors(rng) if dtype == np.float64 else {}
    half = 2.0 ** -(ml_dtypes.finfo(result).nmant + 1)
    a, b = (rough(rng, each, dtype, 12) for each in ((9, 40), (40, 8)))
    cancelling = np.concatenate([a, a], 1), np.concatenate([b, -b])
    # Only one term remains, far below the last bits of all others.
    rest = [x.copy() for x in cancelling]
    rest[0][:, [39, -1]], rest[1][[39, -1]] = [2.0**-60, 0], [[1], [0]]
    # A tie, or the least bit above or below one, which neither a digit nor a float64 has.
    ties, signs = np.zeros((8, 40), np.float32), np.ones((40, 3), np.float32)
    ties[:, 0] = [1, 1, 1, -1, -1, -1, 1, 1]
    ties[:, 1] = np.array([half, half, half, -half, -half, -half, 3 * half, half])
    ties[:, 2] = [0, 2.0**-60, -(2.0**-60), 0, 2.0**-60, -(2.0**-60), 0, 2.0**-126]
    signs[:, 1], signs[:, 2] = 2.0**-20, rng.choice([-1, 1], 40)
    # Two terms of each sum are not zero, and many sums lie halfway between two floats.
    weights = 0.75 * np.eye(40, 33, dtype=np.float32) + 0.25 * np.eye(40, 33, 1, dtype=np.float32)
    # The greatest element of each row has no part in any sum, and then a small one.
    huge, without = (rough(rng, each, dtype, 1) for each in ((7, 30), (30, 6)))
    huge[:, 4] *= np.float32(2.0**70)
    without[4] = 0
    small = without.copy()
    small[4, ::2] = 2.0**-100
    # With all results, infinities of both signs and NaNs.
    left, right = (np.abs(rough(rng, each, dtype, 3)) for each in ((12, 20), (20, 4)))
    left[[0, 1, 1, 2, 3], [3, 4, 5, 6, 7]] = np.nan, np.inf, -np.inf, -np.inf, np.inf
    right[[7, 6, 9], [1, 2, 3]] = 0, -1, np.inf
    powers = np.float32([2.0**-149, 2.0**-126, 2.0**-125, 2.0**-63, 1, 2.0**64, 2.0**127])
    powers = np.concatenate([powers, -powers, powers * np.float32(1.5), [0, -0.0]], dtype="f4")
    powers = np.stack([powers, np.roll(powers, 1)], 1)
    terms = hard_matrix(rng, 40)
    scaled = 2.0 ** rng.integers(-4, 5, (40, 2)).astype(np.float32)
    return {
        "cancelling": cancelling,
        "cancelling but for one term": tuple(rest),
        "ties": (ties, signs),
        "interpolation": (weights, rng.standard_normal((33, 36), np.float32)),
        "next to a huge number": (huge, without),
        "small next to a huge number": (huge, small),
        "not finite": (left, right),
        "least and greatest": (powers, powers.T.copy()),
        "hard sums": (terms.T.copy(), np.concatenate([np.ones((40, 1), "f4"), scaled, terms], 1)),
        **{
            f"{binades} binades": (rough(rng, (9, 70), dtype, binades), rough(rng, (70, 11), dtype))
            for binades in (0, 6, 24, 60)
        },
        **more,
    }


def far_factors(rng):
    """Returns such pairs of float64 whose products are beyond the range of float64."""
    left, right = rng.standard_normal((8, 20)), rng.standard_normal((20, 9))
    far = 2.0 ** rng.integers(-1000, 1000, (8, 20)), 2.0 ** rng.integers(-1000, 1000, (20, 9))
    # Great products cancel, and a small one remains.
    cancelling = np.concatenate([left, left], 1), np.concatenate([right, -right])
    cancelling[0][:, 1::2] *= 2.0**900
    cancelling[1][1::2] *= 2.0**900
    cancelling[1][20, ::2] *= 1 + 2.0**-52
    cancelling[1][20, 1::4] = 2.0**-1000
    # A tie of float64, or 2**-1000 above or below one.
    ties = np.array([[1, 2.0**-53, sign * 2.0**-500] for sign in (0, 1, -1)])
    powers = np.array([2.0**-1074, 2.0**-1022, 2.0**-1021, 2.0**-511, 1, 2.0**512, 2.0**1023])
    powers = np.concatenate([powers, -powers, powers[:-1] * 1.5, [0, -0.0]])
    powers = np.stack([powers, np.roll(powers, 1)], 1)
    return {
        "far": (left * far[0], right * far[1]),
        "great products cancel": cancelling,
        "ties of float64": (ties, np.array([[1, -1], [1, -1], [2.0**-500, 2.0**-500]])),
        "least and greatest float64": (powers, powers.T.copy()),
        "products of 2**1000": (left * 2.0**500, right * 2.0**522),
        "products of 2**-1000": (left * 2.0**-500, right * 2.0**-521),
    }


def options(window, groups=(1, 1)):
    """Returns the options of a convolution."""
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    return {
        **dict(zip(names, window, strict=True)),
        "feature_group_count": groups[0],
        "batch_group_count": groups[1],
    }


def expected_dot(lhs, rhs, numbers, dtype):
    """Returns the oracle's result for a product of any dimensions."""
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = numbers
    left = [d for d in range(lhs.ndim) if d not in {*lhs_sum, *lhs_batch}]
    right = [d for d in range(rhs.ndim) if d not in {*rhs_sum, *rhs_batch}]
    a = lhs.transpose(*lhs_batch, *left, *lhs_sum)
    b = rhs.transpose(*rhs_batch, *rhs_sum, *right)
    batch, rows = a.shape[: len(lhs_batch)], a.shape[len(lhs_batch) : a.ndim - len(lhs_sum)]
    columns = b.shape[b.ndim - len(right) :]
    terms = math.prod(a.shape[a.ndim - len(lhs_sum) :])
    a = a.reshape(*batch, math.prod(rows), terms)
    b = b.reshape(*batch, terms, math.prod(columns))
    return oracles.nearest_product(a, b, dtype).reshape((*batch, *rows, *columns))


def expected_convolution(lhs, rhs, numbers, dtype, window, groups=(1, 1)):
    """Returns the oracle's result for a convolution of any parameters."""
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)
    images, kernel = lhs.transpose(numbers.lhs_spec), rhs.transpose(numbers.rhs_spec)
    features, batches = groups
    count, channels, *sizes = images.shape
    outputs, _, *taps = kernel.shape
    images = images.reshape(batches, count // batches, features, channels // features, -1)
    images = images.transpose(1, 0, 2, 3, 4).reshape(
        count // batches, max(groups), channels // features, -1
    )
    kernel = kernel.reshape(max(groups), outputs // max(groups), kernel.shape[1], -1)
    reads = [positions_of_taps(*each) for each in zip(sizes, taps, *window, strict=True)]
    results = [len(read) for read in reads]
    table = np.zeros((math.prod(results), math.prod(taps)), int)
    for r, at in enumerate(itertools.product(*map(range, results))):
        for t, tap in enumerate(itertools.product(*map(range, taps))):
            positions = [read[i][j] for read, i, j in zip(reads, at, tap, strict=True)]
            table[r, t] = -1 if -1 in positions else np.ravel_multi_index(positions, sizes)
    out = oracles.nearest_convolution(images, kernel, table, dtype)
    out = out.reshape(count // batches, outputs, *results)
    return out.transpose(np.argsort(numbers.out_spec))


def positions_of_taps(size, taps, stride, padding, lhs_dilation, rhs_dilation):
    """Returns, for each result along a dimension, the position that each tap reads, or -1."""
    dilated = (size - 1) * lhs_dilation + 1
    span = dilated + sum(padding) - (taps - 1) * rhs_dilation
    table = []
    for result in range(max(-(-span // stride), 0)):
        starts = [result * stride - padding[0] + tap * rhs_dilation for tap in range(taps)]
        table.append(
            [
                at // lhs_dilation if 0 <= at < dilated and at % lhs_dilation == 0 else -1
                for at in starts
            ]
        )
    return table
