"""The greatest element of each window, and its position.

Dimensions are reduced one after another, the last one first, as pairs of elements and positions.
Short windows that are evenly spaced combine one tap after another. Of all others, each combines two
parts that may overlap, whose length is a power of 2; such parts are combined of shorter ones::

    elements              3 7 2 5 1     positions     0 1 2 3 4
    parts of 2            7 7 5 5                     1 1 3 3
    windows of 3          7 7 5                       1 1 3

The gradient sends each cotangent to the position: a scatter, the transpose of reads by positions.
For evenly spaced windows of few taps, devices other than a CPU add one shifted array for each tap,
which costs them less.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.axes import elements_at, index_dtype, rows_at, three_axes
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence, lowest

#: The greatest length of evenly spaced windows that are combined one tap after another.
_SHORT = 8

#: The greatest number of taps of a window for which a gradient adds an array for each.
UNROLLED = 64

#: Elements and their positions, of one shape. The padding has the position -1.
_Pair: TypeAlias = tuple[jax.Array, jax.Array]


class Spans(NamedTuple):
    """The windows of one dimension.

    Attributes:
        start: The position where each window begins; it may be negative. Or an array of int32, of
            shape [lanes, windows], if a program computes the positions. All are then inside.
        taps: The number of taps of each window. The greatest is at most twice the least.
        spacing: The distance between two taps.
    """

    start: tuple[int, ...] | jax.Array
    taps: tuple[int, ...]
    spacing: int = 1


def greatest(values: jax.Array, spans: Sequence[Spans]) -> _Pair:
    """Returns the greatest element of each window, and its position.

    A NaN is greater than every number, and all NaNs are equal. Of equal elements the first in
    row-major order is taken, on every device. The maximum of a window without elements is the
    lowest value of the dtype, and its position is -1.

    Args:
        values: Shape [..., *sizes]; a lane is an index of the dimensions before the sizes.
        spans: The windows of each of the last dimensions.

    Returns:
        The elements, and their row-major positions in a lane: two arrays [..., *windows].
    """
    lead = values.shape[: values.ndim - len(spans)]
    values = values.reshape(math.prod(lead), *values.shape[len(lead) :])
    maxima, position = _pairs(values, spans)
    if jnp.issubdtype(values.dtype, jnp.floating):
        of_shapes = all(isinstance(each.start, tuple) for each in spans)
        maxima = _with_gradient(values, maxima, position, tuple(spans) if of_shapes else ())
    shape = (*lead, *maxima.shape[1:])
    return maxima.reshape(shape), position.reshape(shape)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _with_gradient(
    values: jax.Array, maxima: jax.Array, position: jax.Array, spans: Sequence[Spans]
) -> jax.Array:
    """Returns ``maxima`` with the derivative of the elements at their positions."""
    del values, position, spans
    return maxima


@_with_gradient.defjvp
def _jvp(spans: Sequence[Spans], primals: Any, tangents: Any) -> Any:
    position, dtype = primals[2], tangents[0].dtype
    # The gradient is added in float32, and rounded once.
    tangent = convert(tangents[0], accumulator(dtype))
    has_empty = any(min(each.start, default=0) < 0 or each.spacing > 1 for each in spans)
    read = functools.partial(_read, has_empty=has_empty)
    even = all(len({*each.taps}) == 1 and _step(np.array(each.start)) for each in spans)
    if spans and even and math.prod(each.taps[0] for each in spans) <= UNROLLED:
        by_taps = functools.partial(_read_by_taps, spans=spans)
        out = lax.platform_dependent(tangent, position, cpu=read, default=by_taps)
    else:
        out = read(tangent, position)
    return _with_gradient(*primals, spans), convert(out, dtype)


def _pairs(values: jax.Array, spans: Sequence[Spans]) -> _Pair:
    """Returns the result of ``greatest``, without a gradient."""
    sizes = values.shape[1:]
    count = math.prod(sizes)
    position = jnp.arange(count, dtype=index_dtype(count)).reshape(sizes)
    pair = lax.stop_gradient(values), jnp.broadcast_to(position, values.shape)
    for dim in reversed(range(len(sizes))):
        pair = _along(pair, 1 + dim, spans[dim])
    return pair


def _read(values: jax.Array, position: jax.Array, *, has_empty: bool) -> jax.Array:
    """Returns the elements at row-major positions of each lane.

    Args:
        values: Shape [lanes, *sizes].
        position: Shape [lanes, *windows].
        has_empty: Whether positions may be -1, for a zero without a gradient.
    """
    lanes, count = values.shape[0], math.prod(values.shape[1:])
    if 0 in (lanes, count, position.size):
        return jnp.zeros(position.shape, values.dtype)
    index = position.reshape(lanes, math.prod(position.shape[1:]), 1)
    rows = values.reshape(lanes, count, 1)
    out = elements_at(rows, jnp.maximum(index, 0) if has_empty else index)
    if has_empty:
        out = jnp.where(index < 0, jnp.zeros((), out.dtype), out)
    return out.reshape(position.shape)


def _read_by_taps(values: jax.Array, position: jax.Array, spans: Sequence[Spans]) -> jax.Array:
    """Computes ``_read`` for evenly spaced windows, by one slice for each tap."""
    sizes, starts = values.shape[1:], [np.array(each.start) for each in spans]
    taps = [
        [s + e.spacing * t for t in range(e.taps[0])] for s, e in zip(starts, spans, strict=True)
    ]
    # The coordinates of a position along each dimension, and whether each tap has it.
    strides = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    chosen = [
        [(position // stride) % size == _on_axis(tap, dim + 1, position.ndim) for tap in of_dim]
        for dim, (of_dim, stride, size) in enumerate(zip(taps, strides, sizes, strict=True))
    ]
    before = [max(0, -int(s[0])) for s in starts]
    after = [max(0, int(of_dim[-1][-1]) + 1 - n) for of_dim, n in zip(taps, sizes, strict=True)]
    config = [(0, 0, 0), *((b, a, 0) for b, a in zip(before, after, strict=True))]
    padded = lax.pad(values, np.zeros((), values.dtype), config)
    out = jnp.zeros(position.shape, values.dtype)
    for number in np.ndindex(*map(len, taps)):
        part, is_chosen = padded, position >= 0
        for dim, (tap, first) in enumerate(zip(number, before, strict=True)):
            part = _sliced(part, dim + 1, taps[dim][tap] + first)
            is_chosen &= chosen[dim][tap]
        out = jnp.where(is_chosen, part, out)
    return out


def _along(pair: _Pair, axis: int, spans: Spans) -> _Pair:
    """Returns the pair of each window along an axis."""
    shape, n, lanes = pair[0].shape, len(spans.taps), pair[0].shape[0]
    result = (*shape[:axis], n, *shape[axis + 1 :])
    if 0 in (*shape, n):
        return jnp.zeros(result, pair[0].dtype), jnp.zeros(result, pair[1].dtype)
    pair = three_axes(pair[0], axis), three_axes(pair[1], axis)
    start: Any = spans.start
    least = min(spans.taps)
    if isinstance(start, jax.Array):
        start = jnp.repeat(start, pair[0].shape[0] // lanes, axis=0)[:, :, None]
    else:
        last = np.add(start, spans.spacing * (np.asarray(spans.taps) - 1))
        before = max(0, -min(start))
        pair = _padded(pair, before, max(0, int(last.max()) + 1 - shape[axis]))
        start = np.add(start, before)
    if _step(start) and least == max(spans.taps) <= _SHORT:
        taps = [_picked(pair, start + tap * spans.spacing) for tap in range(least)]
        values, position = functools.reduce(_first_greatest, taps)
    else:
        values, position = _by_parts(fence(pair), start, spans)
    return values.reshape(result), position.reshape(result)


def _by_parts(pair: _Pair, start: Any, spans: Spans) -> _Pair:
    """Combines each window of two parts, of the greatest power of 2 taps that every window has."""
    length = 1
    while 2 * length <= min(spans.taps):
        shift = spans.spacing * length
        parts = np.arange(pair[0].shape[1] - shift)
        pair = _first_greatest(_picked(pair, parts), _picked(pair, parts + shift))
        length *= 2
    first = _picked(pair, start)
    rest = spans.spacing * (np.asarray(spans.taps) - length)
    if not rest.any():
        return first
    second = start + (rest if isinstance(start, np.ndarray) else rest[None, :, None])
    return _first_greatest(first, _picked(pair, second))


def _first_greatest(first: _Pair, other: _Pair) -> _Pair:
    """Returns the greater element of two; the first one if they are equal."""
    (a, position), (b, other_position) = first, other
    greater = b > a
    if jnp.issubdtype(a.dtype, jnp.floating):
        greater |= lax.ne(b, b) & lax.eq(a, a)
    return where(greater, b, a), where(greater | (position < 0), other_position, position)


def _padded(pair: _Pair, before: int, after: int) -> _Pair:
    if not before and not after:
        return pair
    config = [(0, 0, 0), (before, after, 0), (0, 0, 0)]
    values, position = pair
    fill: Any = lowest(values.dtype)
    return lax.pad(values, fill, config), lax.pad(position, np.array(-1, position.dtype), config)


def _step(start: Any) -> int:
    """Returns the distance between evenly spaced windows, or 0 for uneven or traced windows."""
    if not isinstance(start, np.ndarray):
        return 0
    steps = {*np.diff(start).tolist()} or {1}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else 0


def _on_axis(values: Any, axis: int, ndim: int) -> Any:
    return values.reshape([-1 if each == axis else 1 for each in range(ndim)])


def _sliced(values: jax.Array, axis: int, index: Any) -> jax.Array:
    """Returns the elements at evenly spaced indices along an axis."""
    return lax.slice_in_dim(values, int(index[0]), int(index[-1]) + 1, _step(index), axis)


def _picked(pair: _Pair, index: Any) -> _Pair:
    """Returns the pairs at indices along the middle axis: [windows], or [outer, windows, 1]."""
    if _step(index):
        return _sliced(pair[0], 1, index), _sliced(pair[1], 1, index)
    at = rows_at if index.ndim == 1 else elements_at
    return at(pair[0], index), at(pair[1], index)
