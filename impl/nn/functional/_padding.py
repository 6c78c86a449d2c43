"""The op ``pad``: adds elements at the ends of dimensions, or removes them.

Each mode but ``constant`` joins slices of the array, one dimension after another, the last first. A
gradient adds the cotangents of all copies of an element::

    [1, 2, 3] by (2, 1)    reflect [3, 2, 1, 2, 3, 2]    circular [2, 3, 1, 2, 3, 1]
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert, isolate
from impl._jax.linear import with_transpose
from impl._mode.alert import alert_pullback
from impl._mode.decide import decide
from impl._mode.modes import current
from impl.ops._op import op

_NAME = "pad"
_OP = f"nn.functional.{_NAME}"
_MODES = ("constant", "reflect", "replicate", "circular")

#: The numbers of elements that are added before and after a dimension; negative ones are removed.
_Pair = tuple[int, int]


@op("torch.nn.functional.pad")
def pad(input: Array, pad: Sequence[int], mode: str = "constant", value: Any = None) -> jax.Array:
    """Adds elements at the ends of the last dimensions, or removes elements there.

    Args:
        input: For the mode ``"constant"``, any shape and dtype. For the other modes: a batch
            (which may be missing), a channel, and the one, two or three dimensions to pad;
            ``"reflect"`` and ``"replicate"`` do not accept bools.
        pad: The numbers of elements to add before and after the last dimension, then before and
            after the dimension before it, and so on. Negative numbers remove elements.
        mode: The values of the new elements. ``"constant"``: ``value``. ``"reflect"``: the input
            mirrored at its first or last element, fewer elements than the dimension has.
            ``"replicate"``: the first or the last element. ``"circular"``: the elements of the
            other end, at most as many as the dimension has. If ``pad`` also removes elements, the
            mode ``"circular"`` uses only those that remain, and refuses to use one of them twice.
            (PyTorch then reads uninitialized memory.)
        value: A number; None means 0. It has no derivative.

    Returns:
        An array in the dtype of ``input``; its elements are copied bit for bit. A gradient adds
        the cotangents of all copies of an element, in float32 for float16 and bfloat16.

    Raises:
        NotImplementedError: ``mode`` is unknown, or does not accept the dtype, the number of
            dimensions or the length of ``pad``.
        RuntimeError: ``pad`` has an odd length, is longer than the dimensions, adds too many
            elements or removes too many; or ``value`` does not fit the dtype, or is given for
            another mode.
    """
    input = arguments.array(_NAME, "input", input)
    pairs = _pairs(pad, input.ndim)
    arguments.choice(_NAME, "mode", mode, _MODES, NotImplementedError)
    dims = len(pairs)
    if mode == "constant":
        out = _constant(input, pairs, value)
    else:
        _check_input(input, mode, dims, value)
        sizes = input.shape[-dims:]
        _check_lengths(mode, sizes, pairs)
        reads = tuple(_reads(mode, n, *pair) for n, pair in zip(sizes, pairs, strict=True))
        out = _copied(reads, input)
    facts = arguments.facts(input, mode=mode, spatial_ndim=dims)
    decision = decide(_OP, "backward", **facts)
    return alert_pullback(out, decision)


def _pairs(pad: Any, ndim: int) -> tuple[_Pair, ...]:
    """Returns ``pad`` as one pair for each padded dimension, in the order of the dimensions."""
    if not isinstance(pad, Sequence) or isinstance(pad, str):
        raise arguments.wrong_type(_NAME, "pad", "tuple of ints", pad)
    flat = arguments.integers(_NAME, "pad", pad, len(pad))
    if len(flat) % 2:
        raise RuntimeError(
            f"{_NAME}(): Padding length must be divisible by 2, but got {list(flat)}"
        )
    if len(flat) > 2 * ndim:
        raise RuntimeError(
            f"{_NAME}(): Padding length should be less than or equal to two times the input "
            f"dimension but got padding length {len(flat)} and input of dimension {ndim}"
        )
    return tuple(zip(flat[::2], flat[1::2], strict=True))[::-1]


def _constant(input: jax.Array, pairs: tuple[_Pair, ...], value: Any) -> jax.Array:
    if isinstance(value, numbers.Number):
        if not isinstance(value, numbers.Real):
            raise arguments.wrong_type(_NAME, "value", "float", value)
        value = float(value)
    fill = arguments.number_as(_NAME, "value", 0 if value is None else value, input.dtype)
    pairs = ((0, 0),) * (input.ndim - len(pairs)) + pairs
    for dim, (size, (before, after)) in enumerate(zip(input.shape, pairs, strict=True)):
        if size + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError(
                f"{_NAME}(): pad removes more than there is: {(before, after)} of dimension {dim} "
                f"with size {size}"
            )
    return jax.lax.pad(input, jax.lax.stop_gradient(fill), [(*pair, 0) for pair in pairs])


def _check_input(input: jax.Array, mode: str, dims: int, value: Any) -> None:
    if value is not None and not (isinstance(value, int | float) and value == 0):
        raise RuntimeError(f"{_NAME}(): Padding mode {mode!r} doesn't take in value argument")
    if dims not in (1, 2, 3) or input.ndim not in (dims + 1, dims + 2):
        raise NotImplementedError(
            f"{_NAME}(): mode {mode!r} pads the last 1, 2 or 3 dimensions of an input with one or "
            f"two more, but got shape {list(input.shape)} and a pad of length {2 * dims}"
        )
    if mode == "circular":
        return
    if arguments.dtype_kind(input.dtype) == "bool":
        raise NotImplementedError(f"{_NAME}(): mode {mode!r} is not implemented for bool")
    if 0 in input.shape[-dims - 1 :]:
        raise RuntimeError(
            f"{_NAME}(): Expected {dims + 1}D or {dims + 2}D (batch mode) input with possibly 0 "
            f"batch size and other non-zero dimensions, but got: {list(input.shape)}"
        )


def _check_lengths(mode: str, sizes: tuple[int, ...], pairs: tuple[_Pair, ...]) -> None:
    lengths = [size + sum(pair) for size, pair in zip(sizes, pairs, strict=True)]
    if min(lengths) < 0 or (mode != "circular" and max(lengths) < 1):
        raise RuntimeError(
            f"{_NAME}(): input of size {list(sizes)} is too small, for the calculated output size "
            f"is {lengths}"
        )
    for size, pair in zip(sizes, pairs, strict=True):
        if mode == "reflect" and max(pair) >= size:
            raise RuntimeError(
                f"{_NAME}(): Padding size should be less than the corresponding input dimension, "
                f"but got: padding {pair} of size {size}"
            )
        remaining = size + min(pair[0], 0) + min(pair[1], 0)
        if mode == "circular" and max(*pair, 0) > remaining:
            raise RuntimeError(
                f"{_NAME}(): Padding value causes wrapping around more than once: {pair} of size "
                f"{size}"
            )


def _reads(mode: str, size: int, before: int, after: int) -> tuple[int, ...]:
    """Returns the index that each element of one dimension of the result copies."""
    position = np.arange(-before, size + after)
    if mode == "reflect":
        index = size - 1 - np.abs(size - 1 - np.abs(position))
    elif mode == "replicate":
        index = np.clip(position, 0, size - 1)
    else:
        start, stop = max(-before, 0), size + min(after, 0)
        index = start + (position - start) % max(stop - start, 1)
    return tuple(index.tolist())


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def _copied(reads: tuple[tuple[int, ...], ...], input: jax.Array, longest: int = 1) -> jax.Array:
    """Returns copies of elements along the last dimensions, in any dtype.

    ``longest`` is as for ``_runs``. XLA computes all fastest by ascending runs, along the first
    dimension first. With 0, the transpose adds each run of equal indices by one sum, along the
    first dimension first.
    """
    out = input
    axes = [*enumerate(reads, input.ndim - len(reads))]
    for dim, read in axes if longest else axes[::-1]:
        runs = [_run(out, dim, run) for run in _runs(read, longest)]
        out = jnp.concatenate(runs or [jax.lax.slice_in_dim(out, 0, 0, axis=dim)], dim)
    return out


@_copied.defjvp
def _jvp(reads: tuple[tuple[int, ...], ...], longest: int, primals: Any, tangents: Any) -> Any:
    # The transpose adds in float32, and rounds once. The values keep the bits of their NaNs.
    (tangent,) = tangents
    wide = convert(tangent, accumulator(tangent.dtype))
    copied = _copied(reads, wide, 0 if current().portable else longest)
    # The sums of cotangents contract with no product of the caller.
    copied = with_transpose(lambda x: x, isolate, copied)
    return _copied(reads, *primals, longest), convert(copied, tangent.dtype)


def _runs(read: Sequence[int], longest: int) -> Iterator[Sequence[int]]:
    """Cuts indices into runs of equal, ascending or descending ones, such as 000 123 333 or 21 012.

    Runs whose step is ``longest`` are as long as possible.
    """
    start = 0
    while start < len(read):
        stop = start + 1
        step = read[stop] - read[start] if stop < len(read) else 0
        if abs(step) <= 1:
            while stop < len(read) and read[stop] - read[stop - 1] == step:
                stop += 1
            if step != longest and stop < len(read) and read[stop] - read[stop - 1] == longest:
                stop -= 1
        yield read[start:stop]
        start = stop


def _run(input: jax.Array, dim: int, run: Sequence[int]) -> jax.Array:
    """Returns the elements of a run: a slice, a reversed slice, or one element repeated."""
    first, last = min(run), max(run)
    part = jax.lax.slice_in_dim(input, first, last + 1, axis=dim)
    if len(run) > 1 and first == last:
        shape = (*input.shape[:dim], len(run), *input.shape[dim + 1 :])
        return jnp.broadcast_to(part, shape)
    return jax.lax.rev(part, (dim,)) if run[0] > run[-1] else part
