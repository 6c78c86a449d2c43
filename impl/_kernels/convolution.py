"""Convolutions and their gradients as matrix products that read their operands directly.

The technique is implicit GEMM (Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning",
2014, arXiv:1410.0759): the matrix of image patches is never written. A product finds an
element of an operand by the row, the column and the term of the product:

    =========  ============  ==================  ==========================
    Role       Rows          Columns             Terms
    =========  ============  ==================  ==========================
    result     outputs       result positions    taps, each of all inputs
    image      inputs        image positions     taps, each of all outputs
    weights    outputs       taps and inputs     positions of all images
    =========  ============  ==================  ==========================

For a kernel of 2 taps and one input, the element of the result at position 5 is the sum of two
terms: weight 0 times the image at position 5, and weight 1 times the image at position 6.

Images are reordered so that channels come last: a tap then reads the channels of a position with
wide loads, wherever the position is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from impl._families.convolution_window import ConvolutionWindow
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._kernels.matmul import ElementAt, Product, below, both, padding_of, part_of, products

#: The position of an operand that a tap reads for another position, and whether it is inside.
Position: TypeAlias = Callable[[ConvolutionWindow, Any, jax.Array], tuple[jax.Array, Any]]


def convolution(
    a: jax.Array,
    b: jax.Array,
    *,
    role: str,
    window: ConvolutionWindow,
    tf32: bool,
    launch: Launch,
) -> jax.Array:
    """Computes one of the three products of ``impl._lowerings.convolution``, of floats."""
    functions: dict[str, Callable[..., jax.Array]]
    functions = {"result": _result, "image": _image, "weights": _weights}
    return functions[role](a, b, window, launch=launch, tf32=tf32)


def _result(x: jax.Array, w: jax.Array, window: ConvolutionWindow, **options: Any) -> jax.Array:
    """Computes the result: rows are outputs, columns positions, terms taps times inputs."""
    n, groups = x.shape[0], window.groups
    inputs, outputs = w.shape[1], w.shape[0] // groups
    few = window.taps_per_product(inputs)
    images, inputs = _channels_last(x, groups)
    factors = _with_channels(w.reshape(groups, outputs, -1, len(window.taps)), 2, inputs)
    factors = jnp.swapaxes(factors, 2, 3)
    image_at = _reads(
        window, (n, groups, inputs), few, window.result, window.image, _image_position
    )
    out = _over_taps(factors, images, few, (n, *window.result), image_at, options)
    return out.reshape(n, groups * outputs, *window.result)


def _image(y: jax.Array, w: jax.Array, window: ConvolutionWindow, **options: Any) -> jax.Array:
    """Computes the image: rows are inputs, columns positions, terms taps times outputs."""
    n, groups, inputs = y.shape[0], window.groups, w.shape[1]
    results, outputs = _channels_last(y, groups)
    factors = w.reshape(groups, -1, inputs, len(window.taps))
    factors = jnp.transpose(_with_channels(factors, 1, outputs), (0, 2, 3, 1))
    result_at = _reads(
        window, (n, groups, outputs), 1, window.image, window.result, _result_position
    )
    out = _over_taps(factors, results, 1, (n, *window.image), result_at, options)
    return out.reshape(n, groups * inputs, *window.image)


def _over_taps(
    factors: jax.Array,
    images: jax.Array,
    few: int,
    sizes: tuple[int, ...],
    image_at: ElementAt,
    options: dict[str, Any],
) -> jax.Array:
    """Adds the products of ``few`` taps, one after another.

    Args:
        factors: Shape [groups, rows, taps, channels].
        images: Channels last, where ``image_at`` finds a channel.
        few: The number of taps of a product.
        sizes: The number of images, and the sizes of each in the result.
        image_at: Finds an element of the images.
        options: How to run.

    Returns:
        The flat result, channels first.
    """
    groups, rows, taps, channels = factors.shape
    terms, part = taps * channels, few * channels
    positions = math.prod(sizes[1:])

    def factor_at(
        group: jax.Array, row: jax.Array, run: jax.Array | int, term: jax.Array
    ) -> tuple[jax.Array, Any]:
        return (group * rows + row) * terms + (run * part + term), below(row, rows)

    def result_at(group: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
        image, position = _divided(column, positions)
        if below(row, rows) is not True:
            # No two indices of a store may be equal, not even where nothing is stored.
            row = jnp.where(row < rows, row, sizes[0] * groups * rows + row)
        at: jax.Array = (image * (groups * rows) + group * rows + row) * positions + position
        return at

    shape = Product(groups, rows, math.prod(sizes), terms, part)
    options = {**options, "apart": False, "result_at": result_at}
    return products(factors, images, shape, factor_at, image_at, **options)


def _weights(x: jax.Array, y: jax.Array, window: ConvolutionWindow, **options: Any) -> jax.Array:
    """Computes the weights: rows are outputs, columns taps times inputs.

    Terms are the positions of all images.
    """
    n, groups, taps = x.shape[0], window.groups, len(window.taps)
    columns, rows = x.shape[1] // groups, y.shape[1] // groups
    images, inputs = _channels_last(x, groups)
    results, outputs = _channels_last(y, groups)
    # Terms are positions, so that wide loads read results with their channels first too, if whole
    # loads fill each channel.
    as_they_are = padding_of(window.positions, y.dtype) == 0
    results = y if as_they_are else results
    sizes = (groups, outputs, taps * inputs, n * window.positions)
    part = part_of(*sizes, x.dtype, operands=(x.size + y.size) * x.dtype.itemsize)

    def result_at(
        group: jax.Array, row: jax.Array, number: jax.Array | int, term: jax.Array
    ) -> tuple[jax.Array, Any]:
        position = number * part + term
        if as_they_are:
            image, position = _divided(position, window.positions)
            channel = image * (groups * rows) + group * rows + row
            return channel * window.positions + position, below(row, rows)
        return position * (groups * outputs) + group * outputs + row, below(row, outputs)

    def image_at(
        group: jax.Array, column: jax.Array, number: jax.Array | int, term: jax.Array
    ) -> tuple[jax.Array, Any]:
        tap, channel = _divided(column, inputs)
        image, position = _divided(number * part + term, window.positions)
        position, inside = _image_position(window, tap, position)
        position = image * math.prod(window.image) + position
        inside = both(inside, below(column, taps * inputs))
        return (position * groups + group) * inputs + channel, inside

    out = products(
        results, images, Product(*sizes, part), result_at, image_at, apart=True, **options
    )
    out = out.reshape(groups, outputs, taps, inputs)[:, :rows, :, :columns]
    return jnp.swapaxes(out, 2, 3).reshape(groups * rows, columns, *window.kernel)


def _channels_last(images: jax.Array, groups: int) -> tuple[jax.Array, int]:
    """Reorders [n, groups * channels, *sizes] to [n, *sizes, groups, channels].

    Returns:
        The images, and the number of channels of a group. Channels of zeros are added until wide
        loads read all of a group, unless the images would be too large.
    """
    channels = images.shape[1] // groups
    # Up to four channels are padded to four, half a load of 16-bit floats, to load fewer zeros.
    more = -channels % 4 if channels <= 4 else padding_of(channels, images.dtype)
    if images.size // channels * (channels + more) > MAX_ELEMENTS:
        more = 0
    images = images.reshape(images.shape[0], groups, channels, -1)
    images = _with_channels(jnp.transpose(images, (0, 3, 1, 2)), 3, channels + more)
    return images, channels + more


def _with_channels(array: jax.Array, axis: int, channels: int) -> jax.Array:
    """Pads an axis of channels with zeros."""
    missing = channels - array.shape[axis]
    if missing == 0:
        return array
    return jnp.pad(array, [(0, missing if i == axis else 0) for i in range(array.ndim)])


def _reads(
    window: ConvolutionWindow,
    shape: tuple[int, int, int],
    few: int,
    sizes: Sequence[int],
    read_sizes: Sequence[int],
    find: Position,
) -> ElementAt:
    """Returns a function that finds the element that a column reads in images of ``read_sizes``.

    Columns are the positions of all images of ``sizes``, and terms ``few`` taps times channels.
    ``shape`` holds the numbers of images, groups and channels.
    """
    n, groups, channels = shape
    positions = math.prod(sizes)

    def element_at(
        group: jax.Array, column: jax.Array, run: jax.Array | int, term: jax.Array
    ) -> tuple[jax.Array, Any]:
        image, position = _divided(column, positions)
        tap, channel = (run, term) if few == 1 else _divided(term, channels)
        tap = tap if few == 1 else run * few + tap
        position, inside = find(window, tap, position)
        position = image * math.prod(read_sizes) + position
        inside = both(inside, below(column, n * positions))
        return (position * groups + group) * channels + channel, inside

    return element_at


def _dimensions(window: ConvolutionWindow) -> list[tuple[int, int, int, int, int, int]]:
    """Returns the geometry of each spatial dimension, the last dimension first.

    Each tuple holds the sizes of kernel, result and image, stride, dilation, and the padding before
    the image.
    """
    return list(
        zip(
            reversed(window.kernel),
            reversed(window.result),
            reversed(window.image),
            reversed(window.stride),
            reversed(window.dilation),
            reversed(window.before),
            strict=True,
        )
    )


def _image_position(
    window: ConvolutionWindow, tap: jax.Array, position: jax.Array
) -> tuple[jax.Array, Any]:
    """Finds the position of the image that a tap reads for a position of the result.

    Returns:
        That position, and whether it is inside the image; True if each is.
    """
    flat, inside, scale = jnp.int32(0), True, 1
    for kernel, result, image, stride, dilation, before in _dimensions(window):
        position, within = _divided(position, result)
        tap, offset = _divided(tap, kernel)
        at = within * stride + offset * dilation - before
        last = (result - 1) * stride + (kernel - 1) * dilation - before
        inside = both(inside, _in_range(at, image, -before, last))
        flat, scale = flat + at * scale, scale * image
    return flat, inside


def _result_position(
    window: ConvolutionWindow, tap: jax.Array, position: jax.Array
) -> tuple[jax.Array, Any]:
    """Finds the position of the result for which a tap reads a position of the image.

    Returns:
        That position, and whether it exists; True if each does.
    """
    flat, inside, scale = jnp.int32(0), True, 1
    for kernel, result, image, stride, dilation, before in _dimensions(window):
        position, within = _divided(position, image)
        tap, offset = _divided(tap, kernel)
        ahead = within + before - offset * dilation
        at, remainder = _divided(ahead, stride)
        first, last = before - (kernel - 1) * dilation, (image - 1 + before) // stride
        inside = both(inside, _in_range(at, result, 0, last))
        inside = both(inside, True if first >= 0 else ahead >= 0)
        inside = both(inside, True if stride == 1 else remainder == 0)
        flat, scale = flat + at * scale, scale * result
    return flat, inside


def _in_range(at: jax.Array, size: int, first: int, last: int) -> Any:
    """Returns whether positions from ``first`` to ``last`` are in an array of a size."""
    return both(True if first >= 0 else at >= 0, True if last < size else at < size)


def _divided(number: Any, divisor: int) -> tuple[Any, Any]:
    """Returns quotient and remainder of a number that is not negative.

    They are the machine's own instructions, so the compiler knows how far apart neighbours are. It
    does not with ``//`` and ``%``, which also look at signs.
    """
    if divisor == 1:
        return number, jnp.zeros_like(number)
    number = jnp.asarray(number, jnp.int32)
    return jax.lax.div(number, jnp.int32(divisor)), jax.lax.rem(number, jnp.int32(divisor))
