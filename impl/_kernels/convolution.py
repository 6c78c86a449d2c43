"""Convolutions and their gradients as matrix products whose operands are read where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.convolution_window import ConvolutionWindow
from impl._kernels.matmul import Product, part_of, products
from impl._kernels.triton import Launch


def convolution(
    a: jax.Array,
    b: jax.Array,
    *,
    wanted: str,
    strides: ConvolutionWindow,
    tf32: bool,
    launch: Launch,
) -> jax.Array:
    """One of the three products that ``impl._lowerings.convolution`` describes, of floats."""
    forms: dict[str, Callable[..., jax.Array]]
    forms = {"result": _result, "image": _image, "weights": _weights}
    return forms[wanted](a, b, strides, launch=launch, tf32=tf32)


def _result(x: jax.Array, w: jax.Array, strides: ConvolutionWindow, **options: Any) -> jax.Array:
    """Rows are outputs, columns positions, and terms taps and in each of them inputs."""
    n, groups = x.shape[0], strides.groups
    inputs, outputs = w.shape[1], w.shape[0] // groups
    taps = len(strides.taps)
    factors = jnp.swapaxes(w.reshape(groups, outputs, inputs, taps), 2, 3)
    terms = taps * inputs

    def factor_at(batch: jax.Array, row: jax.Array, term: jax.Array) -> tuple[jax.Array, Any]:
        return (batch % groups * outputs + row) * terms + term, True

    def image_at(batch: jax.Array, term: jax.Array, column: jax.Array) -> tuple[jax.Array, Any]:
        place, inside = _read_at(strides, term // inputs, column)
        return (batch * inputs + term % inputs) * _count(strides.image) + place, inside

    sizes = Product(
        n * groups, outputs, strides.positions, terms, strides.taps_per_product(inputs) * inputs
    )
    out = products(factors, x, sizes, factor_at, image_at, apart=False, **options)
    return out.reshape(n, groups * outputs, *strides.result)


def _image(y: jax.Array, w: jax.Array, strides: ConvolutionWindow, **options: Any) -> jax.Array:
    """Rows are inputs, columns positions, and terms taps and in each of them outputs."""
    n, groups = y.shape[0], strides.groups
    inputs, outputs = w.shape[1], w.shape[0] // groups
    taps = len(strides.taps)
    factors = jnp.transpose(w.reshape(groups, outputs, inputs, taps), (0, 2, 3, 1))
    terms = taps * outputs

    def factor_at(batch: jax.Array, row: jax.Array, term: jax.Array) -> tuple[jax.Array, Any]:
        return (batch % groups * inputs + row) * terms + term, True

    def result_at(batch: jax.Array, term: jax.Array, column: jax.Array) -> tuple[jax.Array, Any]:
        place, inside = _read_by(strides, term // outputs, column)
        return (batch * outputs + term % outputs) * strides.positions + place, inside

    sizes = Product(n * groups, inputs, _count(strides.image), terms, outputs)
    out = products(factors, y, sizes, factor_at, result_at, apart=False, **options)
    return out.reshape(n, groups * inputs, *strides.image)


def _weights(x: jax.Array, y: jax.Array, strides: ConvolutionWindow, **options: Any) -> jax.Array:
    """Rows are outputs, columns taps and in each of them inputs, and terms images' positions."""
    n, groups = x.shape[0], strides.groups
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    taps = len(strides.taps)

    def result_at(batch: jax.Array, row: jax.Array, term: jax.Array) -> tuple[jax.Array, Any]:
        image = term // strides.positions
        channel = (image * groups + batch) * outputs + row
        return channel * strides.positions + term % strides.positions, True

    def image_at(batch: jax.Array, term: jax.Array, column: jax.Array) -> tuple[jax.Array, Any]:
        place, inside = _read_at(strides, column // inputs, term % strides.positions)
        channel = (term // strides.positions * groups + batch) * inputs + column % inputs
        return channel * _count(strides.image) + place, inside

    sizes = (groups, outputs, taps * inputs, n * strides.positions)
    shape = Product(*sizes, part=part_of(*sizes))
    out = products(y, x, shape, result_at, image_at, apart=True, **options)
    out = jnp.swapaxes(out.reshape(groups * outputs, taps, inputs), 1, 2)
    return out.reshape(groups * outputs, inputs, *strides.kernel)


def _count(sizes: tuple[int, ...]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _dimensions(strides: ConvolutionWindow) -> list[tuple[int, int, int, int, int, int]]:
    """From the last: sizes of kernel, result and image, and stride, dilation and what is before."""
    return list(
        zip(
            reversed(strides.kernel),
            reversed(strides.result),
            reversed(strides.image),
            reversed(strides.stride),
            reversed(strides.dilation),
            reversed(strides.before),
            strict=True,
        )
    )


def _read_at(
    strides: ConvolutionWindow, tap: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What a tap reads for a position of the result, and whether that is inside the image."""
    place, inside, scale = jnp.int32(0), jnp.bool_(True), 1
    for kernel, result, image, stride, dilation, before in _dimensions(strides):
        at = position % result * stride + tap % kernel * dilation - before
        inside = inside & (at >= 0) & (at < image)
        place, scale = place + at * scale, scale * image
        tap, position = tap // kernel, position // result
    return place, inside


def _read_by(
    strides: ConvolutionWindow, tap: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The position of the result for which a tap reads one of the image, and whether there is."""
    place, inside, scale = jnp.int32(0), jnp.bool_(True), 1
    for kernel, result, image, stride, dilation, before in _dimensions(strides):
        ahead = position % image + before - tap % kernel * dilation
        at = ahead // stride
        inside = inside & (ahead >= 0) & (ahead % stride == 0) & (at < result)
        place, scale = place + at * scale, scale * result
        tap, position = tap // kernel, position // image
    return place, inside
