"""Operands of products, and the results that the oracles give for any dimension numbers."""

import functools
import itertools
import math
from typing import Any

import jax
import numpy as np

from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
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
    value = np.asarray(value, np.float32)
    if value.size > 3:
        value.flat[:3] = 0.0, -0.0, 1e-40
    return value.astype(dtype)


@functools.cache
def _jitted(function, **options):
    """Returns a function under jit, which compiles operands of one shape once."""
    return jax.jit(functools.partial(function, **options))


def dot(lhs, rhs, numbers=MATRICES, **options):
    """Returns a product, compiled."""
    run = _jitted(dot_general.dot_general, dimension_numbers=numbers, **options)
    with arithmetic.wide():
        return np.asarray(run(lhs, rhs))


def convolve(lhs, rhs, numbers, **options):
    """Returns a convolution, compiled."""
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)
    run = _jitted(convolution.conv_general_dilated, dimension_numbers=numbers, **options)
    with arithmetic.wide():
        return np.asarray(run(lhs, rhs))


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
    reads = [_reads(*each) for each in zip(sizes, taps, *window, strict=True)]
    results = [len(read) for read in reads]
    table = np.zeros((math.prod(results), math.prod(taps)), int)
    for r, at in enumerate(itertools.product(*map(range, results))):
        for t, tap in enumerate(itertools.product(*map(range, taps))):
            positions = [read[i][j] for read, i, j in zip(reads, at, tap, strict=True)]
            table[r, t] = -1 if -1 in positions else np.ravel_multi_index(positions, sizes)
    out = oracles.nearest_convolution(images, kernel, table, dtype)
    out = out.reshape(count // batches, outputs, *results)
    return out.transpose(np.argsort(numbers.out_spec))


def _reads(size, taps, stride, padding, lhs_dilation, rhs_dilation):
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
