"""Calls that pools, interpolate and pad refuse."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import Array
from conformance.cases._forms import INF, NAN, SCALAR, ones, unlike_torch
from conformance.cases.table import ErrorInput, refused


def _errors_of_windows(dims: int) -> Iterator[ErrorInput]:
    """Yields calls that pools of windows refuse."""
    x, several = ones(3, *[6] * dims), (2,) * (dims + 1)
    yield from _errors_of_pools(x, "kernel_size", several)
    for negative in (0, (*[2] * (dims - 1), -1)):
        yield refused(RuntimeError, "kernel_size should be greater than zero", x, negative)
        yield refused(RuntimeError, "stride should be greater than zero", x, 2, negative)
    yield refused(RuntimeError, "padding must be non-negative, but got [-1", x, 2, 1, -1)
    yield refused(RuntimeError, "at most half of kernel_size", x, 3, 1, 2)
    yield refused(RuntimeError, "", x, 8)  # The output would be empty.
    yield refused(RuntimeError, f"'stride' must be an int or {dims} of them", x, 2, several)
    yield refused(RuntimeError, f"'padding' must be an int or {dims}", x, 2, 2, several)


def errors_of_max_pool(dims: int) -> Iterator[ErrorInput]:
    """Yields what pools of windows refuse, and dilations."""
    yield from _errors_of_windows(dims)
    x = ones(3, *[6] * dims)
    for number in (0, -1):
        words = f"dilation should be greater than zero, but got [{number}"
        yield refused(RuntimeError, words, x, 2, 1, 0, number)
    yield refused(RuntimeError, "gives an output of size", x, 2, 1, 0, 6)
    words = f"'dilation' must be an int or {dims}"
    yield refused(RuntimeError, words, x, 2, 2, 0, (2,) * (dims + 1))


def errors_of_adaptive(dims: int) -> Iterator[ErrorInput]:
    """Yields calls that adaptive pools refuse."""
    x = ones(3, *[6] * dims)
    yield from _errors_of_pools(x, "output_size", (2,) * (dims - 1) or (2, 2))
    yield refused(RuntimeError, "greater than or equal to 0, but got [-1", x, -1)
    yield refused(NotImplementedError, "not implemented for int32", x.astype(int), 2)
    if dims > 1:
        words = f"at least {dims + 2} dimensions for {dims + 1} sizes"
        yield refused(ValueError, words, x, (1,) * (dims + 1))
        yield refused(RuntimeError, f"an int or {dims} of them", x[None], (1,) * (dims + 1))


def _errors_of_pools(x: Array, size: str, sizes: tuple[int, ...]) -> Iterator[ErrorInput]:
    """Yields wrong shapes and dtypes, and ``sizes``, which are too many or too few."""
    dims = x.ndim - 1
    # PyTorch's avg_pool2d has an IndexError for a matrix.
    for array in (x[0], x[None, None])[dims == 2 :]:
        words = f"{dims + 1} or {dims + 2} (batch mode) dimensions, but got shape"
        yield refused(RuntimeError, words, array, 2)
    yield refused(RuntimeError, "non-zero size", x[None, ..., :0], 2)
    yield refused(RuntimeError, f"'{size}' must be an int or {dims} of them", x, sizes)
    yield refused(NotImplementedError, "bool", x > 0, 2)
    yield refused(NotImplementedError, "for complex64", x.astype(np.complex64), 2)


def errors_of_interpolate() -> Iterator[ErrorInput]:
    """Yields sizes, factors, modes and options that do not fit, and inputs without elements."""
    every = row, image, volume = ones(1, 2, 4), ones(1, 2, 3, 4), ones(1, 2, 2, 3, 4)
    yield refused(ValueError, "either size or scale_factor must be given, but got neither", row)
    yield refused(ValueError, "but got both", row, size=3, scale_factor=2.0)
    yield refused(ValueError, "spatial dimensions [3, 4] of 'input', but got [3]", image, size=(3,))
    yield refused(ValueError, "but got [3.0, 2, 1]", image, scale_factor=(3.0, 2, 1))
    yield refused(TypeError, "'size' must be int, not float", image, size=(3.0, 2))
    yield refused(TypeError, "'scale_factor' must be float, not str", image, scale_factor=("2", 2))
    yield refused(TypeError, "'scale_factor' must be float, not complex", image, scale_factor=1j)
    yield refused(RuntimeError, "must be finite, but got nan", image, scale_factor=NAN)
    yield refused(RuntimeError, "but got inf", image, scale_factor=INF)
    yield refused(ValueError, "but got nan", image, scale_factor=NAN, mode="area")
    again: dict[str, Any] = {"recompute_scale_factor": True}
    yield refused(OverflowError, "but got inf", image, scale_factor=INF, **again)
    yield refused(ValueError, "with an explicit size", image, size=3, **again)
    for error, words, x, mode, options in (
        (NotImplementedError, "'area', but got 'cubic'", image, "cubic", {}),
        (ValueError, "but got mode 'nearest'", row, "nearest", {"align_corners": False}),
        (ValueError, "'trilinear', but got", row, "area", {"align_corners": True}),
        (ValueError, "4-D inputs, but got mode", image, "nearest", {"antialias": True}),
        (ValueError, "got mode 'linear'", row, "linear", {"antialias": True}),
        (ValueError, "[1, 2, 2, 3, 4]", volume, "bilinear", {"antialias": True}),
        (RuntimeError, "input [0, 4] output [3, 3]", image[:, :, :0], "nearest", {}),
        (RuntimeError, "got shape [1, 2, 0, 4]", image[:, :, :0], "area", {}),
        (RuntimeError, "got shape [1, 0, 3, 4]", image[:, :0], "bilinear", {}),
        (NotImplementedError, "'bicubic' is not implemented", image.astype(np.int8), "bicubic", {}),
    ):
        yield refused(error, words, x, 3, mode=mode, **options)
    for modes, taken, dtypes, takes in (
        (("linear",), [row], (np.uint8,), "it takes floats"),
        (("bilinear", "bicubic"), [image], (), ""),
        (("trilinear",), [volume], (np.uint8, np.int32), "it takes floats"),
        (("nearest", "nearest-exact"), every, (np.int32, bool, np.complex64), "floats and uint8"),
        (("area",), every, (np.uint8, np.int32), "it takes floats"),
    ):
        for mode, x in itertools.product(modes, [row[0, 0], row[0], *every, volume[None]]):
            if not any(x is each for each in taken):
                words = f"Got {x.ndim}D input, but mode"
                yield refused(NotImplementedError, words, x, 3, mode=mode)
        for mode, dtype in itertools.product(modes, dtypes):
            yield refused(NotImplementedError, takes, taken[0].astype(dtype), 3, mode=mode)
    for mode, (output, *given) in itertools.product(
        ("nearest", "nearest-exact", "bilinear", "bicubic"),
        (("[0, 0]", 0), ("[3, -1]", (3, -1)), ("[0, 1]", None, 0.3), ("[-3, -4]", None, -1.0)),
    ):
        yield refused(RuntimeError, f"input [3, 4] output {output}", image, *given, mode=mode)
    yield refused(RuntimeError, "greater than or equal to 0, but got", image, size=-1, mode="area")


def errors_of_pad() -> Iterator[ErrorInput]:
    """Yields pads, values and shapes that do not fit a mode."""
    row, image, volume = ones(1, 2, 4), ones(1, 2, 3, 4), ones(1, 2, 2, 3, 4)
    yield refused(TypeError, "'pad' must be tuple of ints, not str", row, "11")
    yield refused(TypeError, "'pad[0]' must be int, not float", row, (1.0, 1))
    yield refused(RuntimeError, "divisible by 2, but got [1]", row, (1,))
    yield refused(RuntimeError, "divisible by 2", row, (1,), "reflect")
    yield refused(RuntimeError, "padding length 8 and input of dimension 3", row, (1,) * 8)
    yield refused(RuntimeError, "padding length 8", row, (1,) * 8, "circular")
    yield refused(RuntimeError, "input of dimension 0", SCALAR, (1, 1))
    yield refused(NotImplementedError, "'circular', but got 'mirror'", row, (1, 1), "mirror")
    yield refused(TypeError, "'mode' must be str, not NoneType", row, (1, 1), None)
    yield refused(TypeError, "'value' must be float, not complex", row, (1, 1), value=1j)
    yield refused(RuntimeError, "'reflect' doesn't take in value", row, (1, 1), "reflect", 1.0)
    for dtype, value in ((np.int8, 128), (np.uint8, -1), (np.int32, NAN), (np.float16, 1e6)):
        words = f"to {np.dtype(dtype)} without overflow"
        yield refused(RuntimeError, words, row.astype(dtype), (1, 1), value=value)
    yield refused(RuntimeError, "(-3, -2) of dimension 2 with size 4", row, (-3, -2))
    yield refused(RuntimeError, "removes more than there is", row, (-5, 6))
    for mode in ("reflect", "replicate", "circular"):
        unlike: Sequence[tuple[Array, tuple[int, ...]]] = (
            (row, ()),
            (row[0, 0], (1, 1)),
            (image, (1, 1)),
            (image[0, 0], (1,) * 4),
            (volume, (1,) * 4),
            (ones(1, 1, 1, 1, 1, 1), (0,) * 8),
        )
        for x, pad in unlike:
            words = f"shape {list(x.shape)} and a pad of length {len(pad)}"
            yield refused(NotImplementedError, words, x, pad, mode)
        yield refused(RuntimeError, "too small, for the calculated output", row, (-3, -2), mode)
        yield refused(RuntimeError, "[3, 4] is too small", image, (1, 1, -2, -2), mode)
    for mode in ("reflect", "replicate"):
        yield refused(NotImplementedError, "not implemented for bool", row > 0, (1, 1), mode)
        for x in (row[:, :0], row[:, :, :0], row[0, :0]):
            yield refused(RuntimeError, f"but got: {list(x.shape)}", x, (1, 1), mode)
        yield refused(RuntimeError, "is [0]", row, (-2, -2), mode)
    for mode, words, x, too_much in (
        ("reflect", "padding (4, 0) of size 4", row, (4, 0)),
        ("reflect", "padding (0, 4) of size 4", row, (0, 4)),
        ("reflect", "padding (3, 1) of size 3", image, (1, 1, 3, 1)),
        ("reflect", "padding (1, 2) of size 2", volume, (1, 1, 1, 1, 1, 2)),
        ("circular", "more than once: (5, 0) of size 4", row, (5, 0)),
        ("circular", "more than once: (0, 4) of size 3", image, (0, 0, 0, 4)),
        ("circular", "of size 0", row[:, :, :0], (1, 0)),
    ):
        yield refused(RuntimeError, words, x, too_much, mode)
    # PyTorch reads uninitialized memory.
    twice = [
        refused(RuntimeError, f"more than once: {pad} of size 4", row, pad, "circular")
        for pad in ((-3, 3), (3, -2))
    ]
    yield from unlike_torch(*twice)


def errors_of_avg_pool(dims: int) -> Iterator[ErrorInput]:
    """Yields what pools of windows refuse, and divisors."""
    yield from _errors_of_windows(dims)
    x = ones(3, *[6] * dims)
    yield refused(NotImplementedError, "not implemented for uint8", x.astype(np.uint8), 2)
    if dims > 1:
        yield refused(TypeError, "'padding[0]' must be int, not float", x, 2, 2, (0.5,) * dims)
        yield refused(RuntimeError, "must be not zero", x, 2, divisor_override=0)


def errors_of_lp_pool(dims: int) -> Iterator[ErrorInput]:
    """Yields shapes, windows and norms."""
    x = ones(3, *[6] * dims)
    yield refused(RuntimeError, f"{dims + 1} or {dims + 2} (batch mode)", x[None, None], 2, 2)
    yield refused(RuntimeError, "non-zero size", x[None, :0], 2, 2)
    yield refused(ZeroDivisionError, "norm_type must not be zero", x, 0, 2)
    yield refused(RuntimeError, "kernel_size should be greater than zero", x, 2, 0)
    yield refused(RuntimeError, "stride should be greater than zero", x, 2, 2, 0)
    yield refused(RuntimeError, "too small", x, 2, 9)
    for dtype in (np.int32, np.complex64):
        words = f"not implemented for {np.dtype(dtype)}"
        yield refused(NotImplementedError, words, x.astype(dtype), 2, 2)
