"""Convolutions and their gradients as matrix products that read their operands directly.

No operand is copied into a matrix first. A product finds an element of an operand by the row, the
column and the term of the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.convolution_window import ConvolutionWindow
from impl._kernels.launch import Launch
from impl._kernels.matmul import Product, part_of, products


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
    taps = len(window.taps)
    factors = jnp.swapaxes(w.reshape(groups, outputs, inputs, taps), 2, 3)
    terms = taps * inputs

    def factor_at(batch: jax.Array, row: jax.Array, term: jax.Array) -> tuple[jax.Array, Any]:
        return (batch % groups * outputs + row) * terms + term, True

    def image_at(batch: jax.Array, term: jax.Array, column: jax.Array) -> tuple[jax.Array, Any]:
        position, inside = _image_position(window, term // inputs, column)
        return (batch * inputs + term % inputs) * math.prod(window.image) + position, inside

    sizes = Product(
        n * groups, outputs, window.positions, terms, window.taps_per_product(inputs) * inputs
    )
    out = products(factors, x, sizes, factor_at, image_at, apart=False, **options)
    return out.reshape(n, groups * outputs, *window.result)


def _image(y: jax.Array, w: jax.Array, window: ConvolutionWindow, **options: Any) -> jax.Array:
    """Computes the image: rows are inputs, columns positions, terms taps times outputs."""
    n, groups = y.shape[0], window.groups
    inputs, outputs = w.shape[1], w.shape[0] // groups
    taps = len(window.taps)
    factors = jnp.transpose(w.reshape(groups, outputs, inputs, taps), (0, 2, 3, 1))
    terms = taps * outputs

    def factor_at(batch: jax.Array, row: jax.Array, term: jax.Array) -> tuple[jax.Array, Any]:
        return (batch % groups * inputs + row) * terms + term, True

    def result_at(batch: jax.Array, term: jax.Array, column: jax.Array) -> tuple[jax.Array, Any]:
        position, inside = _result_position(window, term // outputs, column)
        return (batch * outputs + term % outputs) * window.positions + position, inside

    sizes = Product(n * groups, inputs, math.prod(window.image), terms, outputs)
    out = products(factors, y, sizes, factor_at, result_at, apart=False, **options)
    return out.reshape(n, groups * inputs, *window.image)


def _weights(x: jax.Array, y: jax.Array, window: ConvolutionWindow, **options: Any) -> jax.Array:
    """Computes the weights: rows are outputs, columns taps times inputs.

    Terms are the positions of all images.
    """
    n, groups = x.shape[0], window.groups
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    taps = len(window.taps)

    def result_at(batch: jax.Array, row: jax.Array, term: jax.Array) -> tuple[jax.Array, Any]:
        image = term // window.positions
        channel = (image * groups + batch) * outputs + row
        return channel * window.positions + term % window.positions, True

    def image_at(batch: jax.Array, term: jax.Array, column: jax.Array) -> tuple[jax.Array, Any]:
        position, inside = _image_position(window, column // inputs, term % window.positions)
        channel = (term // window.positions * groups + batch) * inputs + column % inputs
        return channel * math.prod(window.image) + position, inside

    sizes = (groups, outputs, taps * inputs, n * window.positions)
    shape = Product(*sizes, part=part_of(*sizes))
    out = products(y, x, shape, result_at, image_at, apart=True, **options)
    out = jnp.swapaxes(out.reshape(groups * outputs, taps, inputs), 1, 2)
    return out.reshape(groups * outputs, inputs, *window.kernel)


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
) -> tuple[jax.Array, jax.Array]:
    """Finds the position of the image that a tap reads for a position of the result.

    Returns:
        That position, and whether it is inside the image.
    """
    flat, inside, scale = jnp.int32(0), jnp.bool_(True), 1
    for kernel, result, image, stride, dilation, before in _dimensions(window):
        at = position % result * stride + tap % kernel * dilation - before
        inside = inside & (at >= 0) & (at < image)
        flat, scale = flat + at * scale, scale * image
        tap, position = tap // kernel, position // result
    return flat, inside


def _result_position(
    window: ConvolutionWindow, tap: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Finds the position of the result for which a tap reads a position of the image.

    Returns:
        That position, and whether it exists.
    """
    flat, inside, scale = jnp.int32(0), jnp.bool_(True), 1
    for kernel, result, image, stride, dilation, before in _dimensions(window):
        ahead = position % image + before - tap % kernel * dilation
        at = ahead // stride
        inside = inside & (ahead >= 0) & (ahead % stride == 0) & (at < result)
        flat, scale = flat + at * scale, scale * result
        tap, position = tap // kernel, position // image
    return flat, inside
