"""Convolutions and their two gradients, by matrix products of one or a few taps at a time.

All three are bilinear, and each is what the other two are differentiated to:

- ``result``: from image and weights; taps are added up in groups of a few.
- ``image``: from result and weights; each tap by itself is added where it was read.
- ``weights``: from image and result; each tap has a product of its own.

Images are [n, groups * inputs, *sizes], results [n, groups * outputs, *sizes] and weights
[groups * outputs, inputs, *taps].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp

from impl._core.convolution_window import ConvolutionWindow
from impl._core.numerics import accumulator, convert, product
from impl._core.shard_axes import vary_like
from impl._kernels import convolution as kernels
from impl._kernels.triton import MAX_ELEMENTS, Launch
from impl._lowerings.matmul import by_parts, rounds_first

Wanted: TypeAlias = Literal["result", "image", "weights"]

#: A block has images of no more positions than this, but at least one.
_POSITIONS = 2048
#: How many groups of taps are written out; more are gone through by a loop.
_UNROLLED = 64


def shape_of(wanted: Wanted, a: Any, b: Any, strides: ConvolutionWindow) -> tuple[int, ...]:
    """The shape of what is wanted."""
    if wanted == "result":
        return (a.shape[0], b.shape[0], *strides.result)
    if wanted == "image":
        return (a.shape[0], b.shape[1] * strides.groups, *strides.image)
    return (b.shape[1], a.shape[1] // strides.groups, *strides.kernel)


def _convolution(
    x: jax.Array, w: jax.Array, strides: ConvolutionWindow, precision: str
) -> jax.Array:
    after = (
        (o - 1) * s + (k - 1) * d + 1 - n - p
        for o, s, k, d, n, p in zip(
            strides.result,
            strides.stride,
            strides.kernel,
            strides.dilation,
            strides.image,
            strides.before,
            strict=True,
        )
    )
    return jax.lax.conv_general_dilated(
        x,
        w,
        strides.stride,
        list(zip(strides.before, after, strict=True)),
        rhs_dilation=strides.dilation,
        feature_group_count=strides.groups,
        precision=precision,
    )


def xla_atomic(
    a: jax.Array, b: jax.Array, *, wanted: Wanted, strides: ConvolutionWindow, precision: str
) -> jax.Array:
    """By XLA's convolution, whose algorithm and order are its own affair."""
    shape = shape_of(wanted, a, b, strides)
    if 0 in (*shape, *a.shape, *b.shape):
        return vary_like(jnp.zeros(shape, a.dtype), a, b)
    run = functools.partial(_convolution, strides=strides, precision=precision)
    if wanted == "result":
        return run(a, b)
    unknown = jax.ShapeDtypeStruct(shape, a.dtype)
    if wanted == "image":
        (out,) = jax.linear_transpose(lambda x: run(x, b), unknown)(a)
    else:
        (out,) = jax.linear_transpose(lambda w: run(a, w), unknown)(b)
    return out  # type: ignore[no-any-return]


def xla_atomic_on_cpu(a: jax.Array, b: jax.Array, **params: Any) -> jax.Array:
    """As ``xla_atomic``, in the type that sums are kept in."""
    return convert(xla_atomic(*_wide(a, b), **params), a.dtype)


def kernel_atomic(a: jax.Array, b: jax.Array, *, launch: Launch, **params: Any) -> jax.Array:
    """As ``xla_atomic``, but for integers, which the vendor's library does not take."""
    del launch
    exact = not jnp.issubdtype(a.dtype, jnp.inexact)
    return (xla if exact else xla_atomic)(a, b, **params)


def xla(
    a: jax.Array, b: jax.Array, *, wanted: Wanted, strides: ConvolutionWindow, precision: str
) -> jax.Array:
    """By XLA's matrix products, of a block of images at a time."""
    shape = shape_of(wanted, a, b, strides)
    if 0 in (*shape, *a.shape, *b.shape):
        return vary_like(jnp.zeros(shape, a.dtype), a, b)
    forms: dict[str, Callable[..., jax.Array]]
    forms = {"result": _result, "image": _image, "weights": _weights}
    dot = functools.partial(_dot, precision=precision)
    return convert(forms[wanted](*_wide(a, b), strides, dot), a.dtype)


def kernel(
    a: jax.Array,
    b: jax.Array,
    *,
    wanted: Wanted,
    strides: ConvolutionWindow,
    precision: str,
    launch: Launch,
) -> jax.Array:
    """By a kernel that no tuning changes; integers, which are exact in any order, by XLA."""
    params: dict[str, Any] = {"wanted": wanted, "strides": strides, "precision": precision}
    run: Callable[..., jax.Array] = functools.partial(kernel, **params, launch=launch)
    shape = shape_of(wanted, a, b, strides)
    if jnp.iscomplexobj(a):
        return by_parts(run, a, b)
    if 0 in (*shape, *a.shape, *b.shape) or not jnp.issubdtype(a.dtype, jnp.floating):
        return xla(a, b, **params)
    if max(a.size, b.size, math.prod(shape)) > MAX_ELEMENTS and a.shape[0] > 1:
        half = a.shape[0] // 2
        if wanted == "weights":
            return run(a[:half], b[:half]) + run(a[half:], b[half:])
        return jnp.concatenate([run(a[:half], b), run(a[half:], b)])
    return kernels.convolution(
        a, b, wanted=wanted, strides=strides, tf32=rounds_first(precision), launch=launch
    )


def _wide(*values: jax.Array) -> tuple[jax.Array, ...]:
    floats = jnp.issubdtype(values[0].dtype, jnp.floating)
    return tuple(convert(v, accumulator(v.dtype)) if floats else v for v in values)


Dot: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]


def _dot(a: jax.Array, b: jax.Array, precision: str) -> jax.Array:
    """[groups, m, k] by [groups, k, n]."""
    if a.shape[2] == 1:
        # XLA makes a multiplication of it, which a sum would take up.
        return product(a, b)
    return jax.lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), precision=precision)


def _result(x: jax.Array, w: jax.Array, strides: ConvolutionWindow, dot: Dot) -> jax.Array:
    """Groups of taps, one after another, each a product that is added to the sum of those before.

    Only what one group reads is ever copied.
    """
    inputs = w.shape[1]
    few = strides.taps_per_product(inputs)
    outputs = w.shape[0] // strides.groups
    factors = _flat_weights(w, strides)

    def block(images: jax.Array) -> jax.Array:
        images = _padded(images, strides)

        def add(total: jax.Array, first: Any, count: int) -> jax.Array:
            read = _read(images, strides, first, count)
            factor = jax.lax.dynamic_slice_in_dim(factors, first * inputs, count * inputs, 2)
            return total + dot(factor, read)

        columns = images.shape[0] * strides.positions
        zeros = jnp.zeros((strides.groups, outputs, columns), x.dtype)
        total = _through(add, vary_like(zeros, x, w), len(strides.taps), few)
        return _unfolded(total, images.shape[0], strides.result)

    return _by_block(block, x, strides)


def _image(y: jax.Array, w: jax.Array, strides: ConvolutionWindow, dot: Dot) -> jax.Array:
    """Taps, one after another, each a product that is added to the positions that the tap reads."""
    inputs = w.shape[1]
    few = strides.taps_per_product(inputs)
    factors = jnp.swapaxes(_flat_weights(w, strides), 1, 2)
    # A dimension in steps of the stride, and a dimension within a step: what a tap reads is then a
    # block, and one position within a step.
    steps = [-(-n // s) for n, s in zip(strides.padded_sizes, strides.stride, strict=True)]
    sizes = [size for pair in zip(steps, strides.stride, strict=True) for size in pair]
    window = [size for o in strides.result for size in (o, 1)]

    def block(results: jax.Array) -> jax.Array:
        n = results.shape[0]
        read = _folded(results, strides.groups)

        def add(total: jax.Array, first: Any, count: int) -> jax.Array:
            factor = jax.lax.dynamic_slice_in_dim(factors, first * inputs, count * inputs, 1)
            products = dot(factor, read).reshape(strides.groups, count, inputs, n, *window)
            for number in range(count):
                start: list[Any] = [0, 0, 0]
                for place, s in zip(_place(strides, first + number), strides.stride, strict=True):
                    start += [place // s, place % s]
                term = products[:, number]
                before = jax.lax.dynamic_slice(total, start, term.shape)
                total = jax.lax.dynamic_update_slice(total, before + term, start)
            return total

        zeros = vary_like(jnp.zeros((strides.groups, inputs, n, *sizes), y.dtype), y, w)
        total = _through(add, zeros, len(strides.taps), few)
        whole = [a * b for a, b in zip(steps, strides.stride, strict=True)]
        total = total.reshape(strides.groups * inputs, n, *whole)
        inside = [slice(p, p + size) for p, size in zip(strides.before, strides.image, strict=True)]
        return jnp.moveaxis(total[(..., *inside)], 1, 0)

    return _by_block(block, y, strides)


def _weights(x: jax.Array, y: jax.Array, strides: ConvolutionWindow, dot: Dot) -> jax.Array:
    """For each tap a product over all positions; blocks of images are added up in their order."""
    inputs, outputs = x.shape[1] // strides.groups, y.shape[1] // strides.groups
    few, taps = strides.taps_per_product(inputs), len(strides.taps)

    def block(total: jax.Array, images: jax.Array, results: jax.Array) -> jax.Array:
        images, left = _padded(images, strides), _folded(results, strides.groups)

        def put(total: jax.Array, first: Any, count: int) -> jax.Array:
            read = jnp.swapaxes(_read(images, strides, first, count), 1, 2)
            before = jax.lax.dynamic_slice_in_dim(total, first * inputs, count * inputs, 2)
            return jax.lax.dynamic_update_slice_in_dim(
                total, before + dot(left, read), first * inputs, 2
            )

        return _through(put, total, taps, few)

    zeros = vary_like(jnp.zeros((strides.groups, outputs, taps * inputs), x.dtype), x, y)
    blocks = [_blocks(part, strides) for part in (x, y)]
    total = jax.lax.scan(lambda total, parts: (block(total, *parts), None), zeros, tuple(blocks))[0]
    total = total.reshape(strides.groups * outputs, taps, inputs)
    return jnp.swapaxes(total, 1, 2).reshape(-1, inputs, *strides.kernel)


def _flat_weights(w: jax.Array, strides: ConvolutionWindow) -> jax.Array:
    """[groups, outputs, taps * inputs], taps first."""
    flat = w.reshape(strides.groups, -1, w.shape[1], len(strides.taps))
    return jnp.swapaxes(flat, 2, 3).reshape(*flat.shape[:2], -1)


def _padded(x: jax.Array, strides: ConvolutionWindow) -> jax.Array:
    """The image with zeros around it, as far as windows read."""
    sides = [
        (p, r - n - p, 0)
        for p, r, n in zip(strides.before, strides.padded_sizes, strides.image, strict=True)
    ]
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *sides])


def _place(strides: ConvolutionWindow, tap: Any) -> list[Any]:
    """Where the first window reads, of a tap by its number."""
    place: list[Any] = []
    for size, apart in zip(reversed(strides.kernel), reversed(strides.dilation), strict=True):
        place.insert(0, tap % size * apart)
        tap = tap // size
    return place


def _read(images: jax.Array, strides: ConvolutionWindow, first: Any, count: int) -> jax.Array:
    """What taps read of images with zeros around them: [groups, taps * inputs, n * positions]."""
    sizes = [(o - 1) * s + 1 for o, s in zip(strides.result, strides.stride, strict=True)]
    every = [slice(None, None, s) for s in strides.stride]
    parts = []
    for number in range(count):
        start = [0, 0, *_place(strides, first + number)]
        part = jax.lax.dynamic_slice(images, start, (*images.shape[:2], *sizes))
        parts.append(_folded(part[(..., *every)], strides.groups))
    return parts[0] if count == 1 else jnp.concatenate(parts, 1)


def _folded(images: jax.Array, groups: int) -> jax.Array:
    """[n, groups * channels, *sizes] to [groups, channels, n * positions]."""
    channels = images.shape[1] // groups
    return jnp.swapaxes(images, 0, 1).reshape(groups, channels, -1)


def _unfolded(folded: jax.Array, n: int, sizes: tuple[int, ...]) -> jax.Array:
    """[groups, channels, n * positions] to [n, groups * channels, *sizes]."""
    return jnp.swapaxes(folded.reshape(-1, n, *sizes), 0, 1)


def _through(
    add: Callable[[jax.Array, Any, int], jax.Array], total: jax.Array, taps: int, few: int
) -> jax.Array:
    """Goes through the taps, ``few`` at a time."""
    whole = taps // few if taps > _UNROLLED * few else 0
    if whole:
        total = jax.lax.fori_loop(0, whole, lambda i, total: add(total, i * few, few), total)
    for first in range(whole * few, taps, few):
        total = add(total, first, min(few, taps - first))
    return total


def _per_block(n: int, strides: ConvolutionWindow) -> int:
    """How many images a block has: a divisor of ``n``."""
    most = max(1, _POSITIONS // strides.positions)
    return next(size for size in range(min(most, n), 0, -1) if n % size == 0)


def _blocks(images: jax.Array, strides: ConvolutionWindow) -> jax.Array:
    size = _per_block(images.shape[0], strides)
    return images.reshape(-1, size, *images.shape[1:])


def _by_block(
    function: Callable[[jax.Array], jax.Array], images: jax.Array, strides: ConvolutionWindow
) -> jax.Array:
    """Blocks stay in a cache, where a tap's part of all images would not."""
    out: jax.Array = jax.lax.map(function, _blocks(images, strides))
    return out.reshape(-1, *out.shape[2:])
