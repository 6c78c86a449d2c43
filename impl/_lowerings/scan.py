"""Lowerings of running folds along the middle axis of [outer, n, inner].

A running sum, product or logarithm of sums is a blocked scan: by whole arrays in ``scan_blocks``,
or by kernels in ``impl._kernels.scan_tiles``, with the same bits. So is the recurrence
``h[i] = factors[i] * h[i - 1] + terms[i]``, as a scan of the maps ``h -> factor * h + term``
(Blelloch, "Prefix Sums and Their Applications", CMU-CS-90-190, 1990). Only running sums have
another path with the mode off: JAX's own.

Tangents of a fold are a recurrence too. For running products y of values x with tangents dx:

    y[i]  = x[i] * y[i - 1]
    dy[i] = x[i] * dy[i - 1] + y[i - 1] * dx[i]      factors x[i], terms y[i - 1] * dx[i]

This divides by no value, so a factor may be zero. For logarithms of sums the factor is
``exp(y[i - 1] - y[i])``, and ``dx[i]`` has the weight ``exp(x[i] - y[i])``. The transpose is the
recurrence in the other direction, with each factor one step later (``lagged``), and the products
with the weights come last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl import _kernels
from impl._core.numerics import accumulator, convert, isolate, product
from impl._families.scan_combines import (
    COMBINES,
    Parts,
    Product,
    Running,
    fraction,
    joined,
    split,
)
from impl._families.scan_source import Source, View
from impl._kernels.launch import Launch
from impl._lowerings import scan_blocks

Scan = Callable[..., Any]


def on_parts(function: Scan) -> Scan:
    """Decorates ``function`` to scan parts, in the accumulator dtype.

    It gets the parts of all operands, and the result is made of the parts of the last operand.
    """

    def in_wide_parts(parts: Parts, **options: Any) -> Parts:
        wide = tuple(convert(part, accumulator(part.dtype)) for part in parts)
        return tuple(convert(part, parts[-1].dtype) for part in function(wide, **options))

    return on_narrow_parts(functools.wraps(function)(in_wide_parts))


def on_narrow_parts(function: Scan) -> Scan:
    """Decorates ``function`` as ``on_parts`` does, but leaves the dtype to it."""

    @functools.wraps(function)
    def run(*operands: jax.Array, **options: Any) -> jax.Array:
        if operands[-1].size == 0:
            return operands[-1]
        parts = tuple(part for value in operands for part in split(value))
        return joined(function(parts, **options)[-len(split(operands[-1])) :])

    return run


def block_length() -> int:
    """Returns the members of a block in the spec's blocked scan."""
    return int(spec.load().orders["blocked_scan"].parameters["block"])


def shifted(values: jax.Array, *, reverse: bool) -> jax.Array:
    """Returns the value before each element along the middle axis, and 1 before the first.

    With ``reverse``, returns the value after each element, and 1 after the last.
    """
    if values.shape[1] == 0:
        return values
    end = jnp.ones_like(values[:, :1])
    ends = (values[:, 1:], end) if reverse else (end, values[:, :-1])
    return jnp.concatenate(ends, axis=1)


@on_parts
def ordered_xla(parts: Parts, *, by: Running, reverse: bool = False, lagged: bool = False) -> Parts:
    """Computes the spec's blocked scan by operations on whole arrays."""
    if lagged:
        parts = _without_lag(parts, reverse=reverse)
    return _whole_arrays(parts, by, reverse=reverse)


def _whole_arrays(parts: Parts, by: Running, *, reverse: bool) -> Parts:
    combine = _combine(by, parts, product)
    dear = by == "logaddexp"
    return scan_blocks.scan(parts, combine, block_length(), reverse=reverse, dear=dear)


def _without_lag(parts: Parts, *, reverse: bool) -> Parts:
    """Returns the parts of a recurrence with each factor at the step that uses it."""
    half = len(parts) // 2
    factors = (shifted(part, reverse=reverse) for part in parts[:half])
    return (*factors, *parts[half:])


def _combine(by: Running, parts: Parts, product: Product) -> scan_blocks.Combine:
    """Returns the operation that multiplies by ``product``."""
    # No sum follows the products of real numbers, so a compiler has nothing to contract them with.
    rounded = jax.lax.mul if by == "mul" and len(parts) == 1 else product
    return functools.partial(COMBINES[by], product=rounded)


@on_narrow_parts
def ordered_kernel(
    parts: Parts, *, by: Running, reverse: bool = False, lagged: bool = False, launch: Launch
) -> Parts:
    """Computes ``ordered_xla`` by kernels, a tile of the array in each kernel instance."""
    # Parts of complex numbers: an operand has two, and a recurrence has two operands.
    together = 2 if len(parts) // (2 if by == "affine" else 1) == 2 else 1
    if not (launch.has_kernels and _kernels.scan_tiles.takes(parts, together=together)):
        wide = tuple(convert(part, accumulator(part.dtype)) for part in parts)
        wide = _without_lag(wide, reverse=reverse) if lagged else wide
        out = _whole_arrays(wide, by, reverse=reverse)
        return tuple(convert(part, parts[-1].dtype) for part in out)
    if launch.interpret:  # XLA for a CPU compiles the kernel then, and might contract a product.
        parts = tuple(map(isolate, parts))
    # The factors of a recurrence are not a part of its result.
    first = len(parts) // 2 if by == "affine" else 0
    return _kernels.scan_tiles.scan(
        parts,
        _combine(by, parts, launch.product),
        block=block_length(),
        results=tuple(range(first, len(parts))),
        reverse=reverse,
        source=Source.of_all(len(parts), lagged=first if lagged else 0),
        together=together,
        launch=launch,
    )


def tangents(
    values: jax.Array,
    out: jax.Array,
    dot: jax.Array,
    *,
    by: Running,
    reverse: bool,
    transposed: bool,
    recurrence: Scan,
    times: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Computes tangents of a fold, or with ``transposed`` their transpose.

    Args:
        values: The values, [outer, n, inner].
        out: Their running fold.
        dot: The tangents of the values; transposed, the cotangents of the fold.
        by: The fold: ``mul`` or ``logaddexp``.
        reverse: Whether the fold goes from right to left.
        transposed: Whether to compute the transpose.
        recurrence: Computes a recurrence from factors and terms.
        times: Multiplies, and rounds the product.
    """
    before = shifted(out, reverse=reverse)
    if by == "mul":
        factors, weights = values, before
    else:
        # The fraction of each sum that comes from the sum before it, and from its own value.
        factors, weights = fraction(before, out), fraction(values, out)
    if not transposed:
        return recurrence(factors, times(weights, dot), reverse=reverse)  # type: ignore[no-any-return]
    return times(recurrence(factors, dot, reverse=not reverse, lagged=True), weights)


def tangents_xla(values: jax.Array, out: jax.Array, dot: jax.Array, **how: Any) -> jax.Array:
    """Computes tangents of a fold by operations on whole arrays."""
    recurrence = functools.partial(ordered_xla, by="affine")
    return tangents(values, out, dot, recurrence=recurrence, times=_times, **how)


def _times(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns a product of real or complex numbers, rounded before a sum uses it."""
    return joined(COMBINES["mul"](split(a), split(b), product))


def tangents_kernel(
    values: jax.Array,
    out: jax.Array,
    dot: jax.Array,
    *,
    by: Running,
    reverse: bool,
    transposed: bool,
    launch: Launch,
) -> jax.Array:
    """Computes ``tangents_xla`` by kernels that make the factors and the products."""
    arrays: Parts = (values, out, dot)
    is_real = launch.has_kernels and not jnp.iscomplexobj(dot)
    if dot.size == 0 or not (is_real and _kernels.scan_tiles.takes(arrays)):
        how: dict[str, Any] = {"by": by, "reverse": reverse, "transposed": transposed}
        recurrence = functools.partial(ordered_kernel, by="affine", launch=launch)
        return tangents(values, out, dot, recurrence=recurrence, times=_times, **how)
    if launch.interpret:
        arrays = tuple(map(isolate, arrays))
    (result,) = _kernels.scan_tiles.scan(
        arrays,
        _combine("affine", arrays[:2], launch.product),
        block=block_length(),
        results=(1,),
        reverse=reverse != transposed,
        source=_source(by, launch.product, transposed=transposed),
        launch=launch,
    )
    return result


def _source(by: Running, product: Product, *, transposed: bool) -> Source:
    """Returns how a kernel makes the factors and terms of [values, out, dot]."""
    values, out, dot = View(0), View(1), View(2)
    other = View(1, lag=1, beyond=1)
    types = (2, 2)
    if by == "mul" and transposed:
        after = View(1, lag=-1, beyond=1)
        return Source((View(0, lag=1), dot), _as_they_are, types, (after,), product)
    if by == "mul":
        return Source((values, other, dot), lambda a, b, dot: (a, product(b, dot)), types)
    if transposed:
        return Source(
            (out, other, dot),
            lambda total, later, dot: (fraction(total, later), dot),
            types,
            (values, out),
            lambda folds, part, total: product(folds, fraction(part, total)),
        )
    return Source(
        (values, out, other, dot),
        lambda part, total, before, dot: (
            fraction(before, total),
            product(fraction(part, total), dot),
        ),
        types,
    )


def _as_they_are(*parts: jax.Array) -> Parts:
    return parts


def sum_xla(values: jax.Array, *, reverse: bool) -> jax.Array:
    """Computes running sums as JAX does, in the order of the platform's ``cumsum``."""
    wide = convert(values, accumulator(values.dtype))
    return convert(jax.lax.cumsum(wide, axis=1, reverse=reverse), values.dtype)
