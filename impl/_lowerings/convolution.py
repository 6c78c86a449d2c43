"""Lowerings of convolutions and of their two gradients.

Each of the three is bilinear, and its derivatives are the other two: ``result`` from image and
weights, ``image`` from result and weights, and ``weights`` from image and result. Images are
[n, groups * inputs, *sizes], results [n, groups * outputs, *sizes] and weights
[groups * outputs, inputs, *taps].

The ordered path is matrix products whose terms are taps and channels, in the spec's tap order: by
``convolution_products`` with XLA's products, or by ``impl._kernels.convolution``. With the mode off
the operation is XLA's convolution, whose algorithm cuDNN may choose by timing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp

from impl import _kernels
from impl._core.numerics import accumulator, convert, isolate, product
from impl._core.shard_axes import vary_like
from impl._families.convolution_window import ConvolutionWindow
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import convolution_products
from impl._lowerings.matmul import bilinear_by_parts, rounds_operands

#: The array to compute; the other two are the operands.
Role: TypeAlias = Literal["result", "image", "weights"]


def shape_of(role: Role, a: Any, b: Any, window: ConvolutionWindow) -> tuple[int, ...]:
    """Returns the shape of the array to compute."""
    if role == "result":
        return (a.shape[0], b.shape[0], *window.result)
    if role == "image":
        return (a.shape[0], b.shape[1] * window.groups, *window.image)
    return (b.shape[1], a.shape[1] // window.groups, *window.kernel)


def _convolution(
    x: jax.Array, w: jax.Array, window: ConvolutionWindow, precision: str
) -> jax.Array:
    after = (
        (o - 1) * s + (k - 1) * d + 1 - n - p
        for o, s, k, d, n, p in zip(
            window.result,
            window.stride,
            window.kernel,
            window.dilation,
            window.image,
            window.before,
            strict=True,
        )
    )
    return jax.lax.conv_general_dilated(
        x,
        w,
        window.stride,
        list(zip(window.before, after, strict=True)),
        rhs_dilation=window.dilation,
        feature_group_count=window.groups,
        precision=precision,
    )


def atomic_xla(
    a: jax.Array, b: jax.Array, *, role: Role, window: ConvolutionWindow, precision: str
) -> jax.Array:
    """Calls XLA's convolution, which chooses its own algorithm and order."""
    shape = shape_of(role, a, b, window)
    if 0 in (*shape, *a.shape, *b.shape):
        return vary_like(jnp.zeros(shape, a.dtype), a, b)
    run = functools.partial(_convolution, window=window, precision=precision)
    if role == "result":
        return run(a, b)
    unknown = jax.ShapeDtypeStruct(shape, a.dtype)
    if role == "image":
        (out,) = jax.linear_transpose(lambda x: run(x, b), unknown)(a)
    else:
        (out,) = jax.linear_transpose(lambda w: run(a, w), unknown)(b)
    return out  # type: ignore[no-any-return]


def atomic_cpu(a: jax.Array, b: jax.Array, **params: Any) -> jax.Array:
    """Calls XLA's convolution, in the accumulator dtype."""
    return convert(atomic_xla(*_in_accumulator_dtype(a, b), **params), a.dtype)


def atomic_kernel(a: jax.Array, b: jax.Array, *, launch: Launch, **params: Any) -> jax.Array:
    """Calls XLA's convolution, or ``ordered_xla`` for integers, which cuDNN does not take."""
    del launch
    exact = not jnp.issubdtype(a.dtype, jnp.inexact)
    return (ordered_xla if exact else atomic_xla)(a, b, **params)


def ordered_xla(
    a: jax.Array, b: jax.Array, *, role: Role, window: ConvolutionWindow, precision: str
) -> jax.Array:
    """Computes the array of a role by XLA's matrix products, one block of images at a time."""
    shape = shape_of(role, a, b, window)
    if 0 in (*shape, *a.shape, *b.shape):
        return vary_like(jnp.zeros(shape, a.dtype), a, b)
    functions: dict[str, Callable[..., jax.Array]]
    functions = {
        "result": convolution_products.result,
        "image": convolution_products.image,
        "weights": convolution_products.weights,
    }
    dot = functools.partial(_dot, precision=precision)
    return convert(functions[role](*_in_accumulator_dtype(a, b), window, dot), a.dtype)


def ordered_cpu(
    a: jax.Array, b: jax.Array, *, role: Role, window: ConvolutionWindow, precision: str
) -> jax.Array:
    """Computes ``ordered_xla`` from operands that need not be rounded yet.

    Operands are only multiplied, so XLA contracts them with no sum. Rounding them first would copy
    each, which takes a quarter of the time. An operand is rounded first if it is converted to the
    accumulator's dtype, or complex: complex products add.
    """
    if a.dtype != accumulator(a.dtype) or jnp.iscomplexobj(a):
        a, b = isolate(a), isolate(b)
    return ordered_xla(a, b, role=role, window=window, precision=precision)


def ordered_kernel(
    a: jax.Array,
    b: jax.Array,
    *,
    role: Role,
    window: ConvolutionWindow,
    precision: str,
    launch: Launch,
) -> jax.Array:
    """Computes the array of a role by a kernel that no autotuning changes.

    XLA computes integers, which are exact in any order. Without kernels it computes all, and
    repeats only if it times no kernels of its own (``impl.compile_options``).
    """
    params: dict[str, Any] = {"role": role, "window": window, "precision": precision}
    if not launch.has_kernels:
        return ordered_xla(a, b, **params)
    run: Callable[..., jax.Array] = functools.partial(ordered_kernel, **params, launch=launch)
    shape = shape_of(role, a, b, window)
    if jnp.iscomplexobj(a):
        return bilinear_by_parts(run, a, b)
    if 0 in (*shape, *a.shape, *b.shape) or not jnp.issubdtype(a.dtype, jnp.floating):
        return ordered_xla(a, b, **params)
    if max(a.size, b.size, math.prod(shape)) > MAX_ELEMENTS:
        half = a.shape[0] // 2
        if half == 0:
            raise NotImplementedError(
                f"convolution of arrays of shapes {list(a.shape)} and {list(b.shape)} to "
                f"{list(shape)}: on a GPU the ordered path takes at most {MAX_ELEMENTS} elements "
                "of each for one element of the batch; split the channels or the image"
            )
        if role == "weights":
            return run(a[:half], b[:half]) + run(a[half:], b[half:])
        return jnp.concatenate([run(a[:half], b), run(a[half:], b)])
    return _kernels.convolution.convolution(
        a, b, role=role, window=window, tf32=rounds_operands(precision), launch=launch
    )


def _in_accumulator_dtype(*values: jax.Array) -> tuple[jax.Array, ...]:
    floats = jnp.issubdtype(values[0].dtype, jnp.floating)
    return tuple(convert(v, accumulator(v.dtype)) if floats else v for v in values)


def _dot(a: jax.Array, b: jax.Array, *, by_rows: bool = False, precision: str) -> jax.Array:
    if a.shape[2] == 1:
        # XLA turns a product of one term into a multiplication, and contracts it with a sum.
        return product(a, jnp.swapaxes(b, 1, 2) if by_rows else b)
    if a.shape[0] > 1:
        contracted = (2,), (2 if by_rows else 1,)
        return jax.lax.dot_general(a, b, (contracted, ((0,), (0,))), precision=precision)
    # With an axis of groups, XLA would transpose an operand that its product can read in place.
    contracted = (1,), (1 if by_rows else 0,)
    a, b = (jax.lax.squeeze(each, (0,)) for each in (a, b))
    out = jax.lax.dot_general(a, b, (contracted, ((), ())), precision=precision)
    return jax.lax.expand_dims(out, (0,))
