"""Convolutions and their two gradients, by matrix products of one or a few taps.

- ``result``, from image and weights: adds one matrix product after another, each of a few taps.
- ``image``, from result and weights: adds the product of each tap to the positions the tap reads.
- ``weights``, from image and result: computes the product of each tap.

The technique is convolution by matrix products of one tap at a time, without a matrix of all
patches of the image (Vasudevan, Anderson and Gregg, "Parallel Multi Channel Convolution using
General Matrix Multiplication", ASAP 2017, arXiv:1704.04428). For an image 1 2 3 4 and weights 10 20
of one channel:

    result    10 * [1 2 3] + 20 * [2 3 4]                  [50 80 110]
    image     of the cotangent [1 1 1]: 10 * [1 1 1 0] + 20 * [0 1 1 1]   [10 30 30 20]
    weights   [1 1 1] . [1 2 3] and [1 1 1] . [2 3 4]      [6 9]

Shapes are as in ``impl._lowerings.convolution``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.shard_axes import vary_like
from impl._families.convolution_window import ConvolutionWindow

#: The greatest number of positions of the images of a block, unless one image has more.
_POSITIONS = 2048
#: The number of groups of taps that are unrolled; a loop goes through more.
_UNROLLED = 64
#: Bounds for ``_result_at_once``, which multiplies by all taps before it adds: the most positions
#: of the images of a block, the most elements of its products, and the most positions that are
#: multiplied for each position of the result. It multiplies the padding too.
_POSITIONS_AT_ONCE = 1024
_PRODUCTS_AT_ONCE = 2**22
_WASTE = 1.25
#: The greatest number of elements that are copied for one matrix product of the gradient of
#: weights.
_COLUMNS = 2**21


class Dot(Protocol):
    """A product of [groups, m, k] and [groups, k, n], or [groups, n, k] where it is ``by_rows``."""

    def __call__(self, a: jax.Array, b: jax.Array, *, by_rows: bool = False) -> jax.Array: ...


def result(x: jax.Array, w: jax.Array, window: ConvolutionWindow, dot: Dot) -> jax.Array:
    """Adds the products of groups of taps, one after another.

    It copies only the elements that one group reads.
    """
    inputs = w.shape[1]
    few = window.taps_per_product(inputs)
    outputs = w.shape[0] // window.groups
    if few == 1 and _fits_at_once(x.shape[0], w.shape[0], window):
        return _result_at_once(x, w, window, dot)
    factors = _flat_weights(w, window)

    def block(images: jax.Array) -> jax.Array:
        padded = _swapped(_padded(images, window))

        def add(total: jax.Array, first: Any, count: int) -> jax.Array:
            columns = _read(padded, window, first, count)
            factor = _taken(factors, first * inputs, count * inputs, 2)
            return jax.lax.add(total, dot(factor, columns))

        shape = (window.groups, outputs, images.shape[0] * window.positions)
        total = _fold_taps(add, _zeros(shape, x, w), len(window.taps), few)
        return _images_first(total, images.shape[0], window.result)

    return _by_block(block, x, window)


def _fits_at_once(n: int, channels: int, window: ConvolutionWindow) -> bool:
    """Returns whether it pays to multiply all positions of the padded image by each tap."""
    each, taps = math.prod(window.padded_sizes), len(window.taps)
    size = _images_per_block(n, window, _POSITIONS_AT_ONCE) * taps * channels * each
    dense = set(window.stride) == {1} and each <= _WASTE * window.positions
    return dense and taps <= _UNROLLED and size <= _PRODUCTS_AT_ONCE


def _result_at_once(x: jax.Array, w: jax.Array, window: ConvolutionWindow, dot: Dot) -> jax.Array:
    """Multiplies whole padded images by all taps, and then adds the shifted products of the taps.

    It copies no rows for each tap.
    """
    groups, inputs, taps = window.groups, w.shape[1], len(window.taps)
    outputs = w.shape[0] // groups
    factors = jax.lax.reshape(w, (groups, outputs, inputs, taps))
    factors = jax.lax.transpose(factors, (0, 3, 1, 2))
    factors = jax.lax.reshape(factors, (groups, taps * outputs, inputs))

    def block(images: jax.Array) -> jax.Array:
        n = images.shape[0]
        products = dot(factors, _channels_first(_padded(images, window), groups))
        sizes = (groups, taps, outputs, n, *window.padded_sizes)
        products = jax.lax.reshape(products, sizes)
        total = _zeros((groups, outputs, n, *window.result), x, w)
        for tap in range(taps):
            offset = window.tap_offset(tap)
            start = [0, tap, 0, 0, *offset]
            part = _block_at(products, start, (groups, 1, outputs, n, *window.result))
            total = jax.lax.add(total, jax.lax.squeeze(part, (1,)))
        return _images_first(total, n, window.result)

    return _by_block(block, x, window, _POSITIONS_AT_ONCE)


def image(y: jax.Array, w: jax.Array, window: ConvolutionWindow, dot: Dot) -> jax.Array:
    """Adds the product of each tap, one after another, to the positions that the tap reads."""
    inputs = w.shape[1]
    few = window.taps_per_product(inputs)
    factors = jax.lax.transpose(_flat_weights(w, window), (0, 2, 1))
    # A spatial dimension is split into a dimension of steps, as long as the stride, and a dimension
    # within a step. A tap then reads one block of steps, at one position within a step. A step of
    # one position has no dimension within.
    steps = [-(-n // s) for n, s in zip(window.padded_sizes, window.stride, strict=True)]
    sizes = window.by_steps(steps, window.stride)
    block_sizes = window.by_steps(window.result, [1] * len(steps))

    def block(results: jax.Array) -> jax.Array:
        n = results.shape[0]
        columns = _channels_first(results, window.groups)

        def add(total: jax.Array, first: Any, count: int) -> jax.Array:
            factor = _taken(factors, first * inputs, count * inputs, 1)
            products = dot(factor, columns)
            shape = (window.groups, count, inputs * n, *block_sizes)
            terms = jax.lax.split(jax.lax.reshape(products, shape), (1,) * count, 1)
            for number in range(count):
                pairs = zip(window.tap_offset(first + number), window.stride, strict=True)
                step, within = zip(*(((o // s), o % s) for o, s in pairs), strict=True)
                start = [0, 0, *window.by_steps(step, within)]
                term = jax.lax.squeeze(terms[number], (1,))
                after = jax.lax.add(_block_at(total, start, term.shape), term)
                total = jax.lax.dynamic_update_slice(total, after, _unsigned(start))
            return total

        zeros = _zeros((window.groups, inputs * n, *sizes), y, w)
        total = _fold_taps(add, zeros, len(window.taps), few)
        padded_sizes = [a * b for a, b in zip(steps, window.stride, strict=True)]
        total = jax.lax.reshape(total, (window.groups * inputs, n, *padded_sizes))
        start = [0, 0, *window.before]
        return _swapped(_block_at(total, start, (*total.shape[:2], *window.image)))

    return _by_block(block, y, window)


def _unsigned(start: Sequence[Any]) -> Sequence[Any]:
    """Returns known indices as unsigned numbers, which JAX neither checks nor converts again."""
    return [np.uint32(each) for each in start] if _are_known(start) else start


def _are_known(start: Sequence[Any]) -> bool:
    return all(isinstance(first, int) for first in start)


def _block_at(
    array: jax.Array, start: Sequence[Any], shape: Sequence[int], strides: Sequence[int] = ()
) -> jax.Array:
    """Returns a part of an array, by an operation without operands for indices that are known."""
    strides = strides if any(stride > 1 for stride in strides) else ()
    if not _are_known(start):
        part = jax.lax.dynamic_slice(array, start, shape)
        return jax.lax.slice(part, [0] * part.ndim, part.shape, strides) if strides else part
    if array.shape == tuple(shape) and not strides:
        return array
    return jax.lax.slice(array, start, [*map(operator.add, start, shape)], strides or None)


def weights(x: jax.Array, y: jax.Array, window: ConvolutionWindow, dot: Dot) -> jax.Array:
    """Computes a product over all positions for each tap; adds blocks of images in order."""
    groups, taps = window.groups, len(window.taps)
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    size = _images_per_block(x.shape[0], window)
    few = window.taps_per_product(inputs)
    # Where a tap has few channels, many taps share a product: the wider it is, the faster. The rows
    # of these taps are joined, and read in place. The rows of one tap alone are transposed while
    # they are read.
    joined = few > 1
    if joined:
        few = max(few, min(taps, _COLUMNS // (groups * inputs * size * window.positions)))

    def step(total: jax.Array, number: Any) -> tuple[jax.Array, None]:
        images, results = (_taken(part, number * size, size, 0) for part in (x, y))
        images, left = _swapped(_padded(images, window)), _channels_first(results, groups)

        def put(total: jax.Array, first: Any, count: int) -> jax.Array:
            rows = _read(images, window, first, count)
            right = rows if joined else jax.lax.transpose(rows, (0, 2, 1))
            before = _taken(total, first * inputs, count * inputs, 2)
            return jax.lax.dynamic_update_slice_in_dim(
                total,
                jax.lax.add(before, dot(left, right, by_rows=joined)),
                first * inputs,
                2,
            )

        return _fold_taps(put, total, taps, few), None

    zeros = _zeros((groups, outputs, taps * inputs), x, y)
    total = jax.lax.scan(step, zeros, jnp.arange(x.shape[0] // size))[0]
    total = jax.lax.reshape(total, (groups * outputs, taps, inputs))
    shape = (groups * outputs, inputs, *window.kernel)
    return jax.lax.reshape(jax.lax.transpose(total, (0, 2, 1)), shape)


def _flat_weights(w: jax.Array, window: ConvolutionWindow) -> jax.Array:
    """Returns the weights as [groups, outputs, taps * inputs], with taps before inputs."""
    groups, taps = window.groups, len(window.taps)
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    flat = jax.lax.reshape(w, (groups, outputs, inputs, taps))
    flat = jax.lax.transpose(flat, (0, 1, 3, 2))
    return jax.lax.reshape(flat, (groups, outputs, taps * inputs))


def _zeros(shape: tuple[int, ...], a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns zeros of the dtype of the operands, which vary over the mesh axes of both."""
    return vary_like(jax.lax.broadcast(a.dtype.type(0), shape), a, b)


def _padded(x: jax.Array, window: ConvolutionWindow) -> jax.Array:
    """Pads the image with zeros as far as windows read.

    Of an image whose axes are in another order, XLA for a CPU would pad each tap anew. So images
    are padded before their axes are swapped.
    """
    sides = [
        (p, r - n - p, 0)
        for p, r, n in zip(window.before, window.padded_sizes, window.image, strict=True)
    ]
    if not any(map(any, sides)):
        return x
    return jax.lax.pad(x, x.dtype.type(0), [(0, 0, 0), (0, 0, 0), *sides])


def _read(images: jax.Array, window: ConvolutionWindow, first: Any, count: int) -> jax.Array:
    """Reads a few taps of padded images, which have their channels first.

    Args:
        images: Shape [groups * inputs, n, *sizes].
        window: The geometry.
        first: The number of the first tap.
        count: The number of taps.

    Returns:
        Shape [groups, taps * inputs, n * positions].
    """
    channels, n = images.shape[:2]
    sizes = [(o - 1) * s + 1 for o, s in zip(window.result, window.stride, strict=True)]
    parts = []
    for number in range(count):
        start = [0, 0, *window.tap_offset(first + number)]
        part = _block_at(images, start, (channels, n, *sizes), (1, 1, *window.stride))
        if window.groups > 1:
            shape = (window.groups, channels // window.groups, *part.shape[1:])
            part = jax.lax.reshape(part, shape)
        parts.append(part)
    axis = 0 if window.groups == 1 else 1
    part = parts[0] if count == 1 else jax.lax.concatenate(parts, axis)
    return jax.lax.reshape(
        part, (window.groups, count * channels // window.groups, n * window.positions)
    )


def _taken(array: jax.Array, start: Any, count: int, axis: int) -> jax.Array:
    """Returns a part of an axis."""
    if count == array.shape[axis]:
        return array
    if isinstance(start, int):
        return jax.lax.slice_in_dim(array, start, start + count, axis=axis)
    return jax.lax.dynamic_slice_in_dim(array, start, count, axis)


def _channels_first(images: jax.Array, groups: int) -> jax.Array:
    """Reorders [n, groups * channels, *sizes] to [groups, channels, n * positions]."""
    n, channels, *sizes = images.shape
    shape = (groups, channels // groups, n * math.prod(sizes))
    return jax.lax.reshape(_swapped(images), shape)


def _swapped(array: jax.Array) -> jax.Array:
    """Returns an array with its first two axes in the other order."""
    return jax.lax.transpose(array, (1, 0, *range(2, array.ndim)))


def _images_first(columns: jax.Array, n: int, sizes: tuple[int, ...]) -> jax.Array:
    """Reorders [groups, channels, n * positions] to [n, groups * channels, *sizes]."""
    channels = columns.size // (n * math.prod(sizes))
    return _swapped(jax.lax.reshape(columns, (channels, n, *sizes)))


def _fold_taps(
    add: Callable[[jax.Array, Any, int], jax.Array], total: jax.Array, taps: int, few: int
) -> jax.Array:
    """Calls ``add`` for all taps in order, ``few`` at a time."""
    steps = taps // few if taps > _UNROLLED * few else 0
    if steps:
        total = jax.lax.fori_loop(0, steps, lambda i, total: add(total, i * few, few), total)
    for first in range(steps * few, taps, few):
        total = add(total, first, min(few, taps - first))
    return total


def _images_per_block(n: int, window: ConvolutionWindow, positions: int = _POSITIONS) -> int:
    """Returns the number of images of a block, a divisor of ``n``."""
    most = max(1, positions // window.positions)
    return next(size for size in range(min(most, n), 0, -1) if n % size == 0)


def _by_block(
    function: Callable[[jax.Array], jax.Array],
    images: jax.Array,
    window: ConvolutionWindow,
    positions: int = _POSITIONS,
) -> jax.Array:
    """Applies ``function`` to one block of images after another.

    A block of images stays in the cache, and all images would not.
    """
    size = _images_per_block(images.shape[0], window, positions)
    count = images.shape[0] // size
    if count == 1:  # XLA would remove the loop.
        return function(images)
    # The loop takes slices: XLA would copy an array that is itself the operand of a map.
    out: jax.Array = jax.lax.map(
        lambda number: function(_taken(images, number * size, size, 0)), jnp.arange(count)
    )
    return out.reshape(-1, *out.shape[2:])
