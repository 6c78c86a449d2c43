"""Samples of conv and conv_transpose, in one to three dimensions.

The reference gathers what each tap of the kernel reads. A transposed convolution is the
gradient of a convolution with respect to its input, so both share the reference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import Array
from conformance.cases._forms import SIDES, ones, spread
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused

#: The sizes of an image by the number of dimensions, and windows that overlap.
_SIZES = {1: (40,), 2: (9, 11), 3: (4, 7, 6)}
_KERNEL = {1: (5,), 2: (3, 2), 3: (2, 3, 2)}
_STRIDE = {1: (3,), 2: (1, 2), 3: (2, 1, 1)}
_DILATION = {1: (2,), 2: (2, 1), 3: (1, 2, 1)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 1)}
#: The positions of the arguments to differentiate with respect to.
_WRT = {1: (1,), 2: (0, 1), 3: (0,)}


def _samples(dims: int, d: Draw, *, transposed: bool) -> Iterator[Sample]:
    """Yields windows that overlap, in a padded image, in two groups, with a bias."""
    op = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    kernel, stride, dilation = (d.sizes(each[dims], 1) for each in (_KERNEL, _STRIDE, _DILATION))
    padding = d.sizes(_PADDING[dims])
    reach = [r * (k - 1) + 1 for k, r in zip(kernel, dilation, strict=True)]
    least = [max(n - 2 * p, 1) for n, p in zip(reach, padding, strict=True)]
    sizes = d.sizes(_SIZES[dims], least)
    batch, channels, outputs, groups = d.sizes((2, 2, 3, 2), (0, 1, 1, 1))
    windows = tuple(
        (n + 2 * p - r) // s + 1 for n, r, s, p in zip(sizes, reach, stride, padding, strict=True)
    )
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    image, result = (batch, groups * channels, *sizes), (batch, groups * outputs, *windows)
    if transposed:
        # The padding that makes the image as large as the input of the convolution.
        output_padding = [
            n - ((o - 1) * s - 2 * p + r)
            for n, o, s, p, r in zip(sizes, windows, stride, padding, reach, strict=True)
        ]
        options["output_padding"] = tuple(output_padding)
    window = _window(sizes, kernel, result[2:], stride, dilation, padding)
    forward = _image if transposed else _result
    for wrt in _WRT[dims]:
        yield Sample(
            name=f"gradient of {('input', 'weight')[wrt]}",
            call=lambda ns, x, w, b: getattr(ns.nn.functional, op)(x, w, b, **options),
            arrays=(
                d.values(result if transposed else image, np.float32, 1),
                d.values((groups * outputs, channels, *kernel), np.float32),
                d.values((groups * (channels if transposed else outputs),), np.float32),
            ),
            expected=lambda x, w, b: (
                forward(x, w, groups, window, image if transposed else result)
                + b.reshape(-1, *(1,) * dims)
            ),
            wrt=wrt,
            expected_gradient=functools.partial(
                _gradient, wrt=wrt, groups=groups, window=window, transposed=transposed
            ),
        )


def _window(
    sizes: Sequence[int],
    kernel: Sequence[int],
    counts: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
) -> Array:
    """Returns the element that each tap of each result reads: [results, taps].

    The number of elements stands for the padding.
    """
    grid = np.full([n + 2 * p for n, p in zip(sizes, padding, strict=True)], math.prod(sizes))
    inside = tuple(slice(p, p + n) for n, p in zip(sizes, padding, strict=True))
    grid[inside] = np.arange(math.prod(sizes)).reshape(sizes)
    along = [
        np.arange(count)[:, None] * s + np.arange(k) * d
        for count, k, s, d in zip(counts, kernel, stride, dilation, strict=True)
    ]
    positions = np.zeros((1, 1), int)
    for read, size in zip(along, grid.shape, strict=True):
        positions = positions[:, None, :, None] * size + read[None, :, None, :]
        positions = positions.reshape(positions.shape[0] * len(read), -1)
    return grid.reshape(-1)[positions]


def _grouped(a: Array, groups: int) -> Array:
    """Returns an array in float64, of shape [n, groups, channels of a group, elements]."""
    return a.astype(np.float64).reshape(
        len(a), groups, a.shape[1] // groups, math.prod(a.shape[2:])
    )


def _kernel(w: Array, groups: int) -> Array:
    """Returns weights of shape [groups, outputs of a group, channels of a group, taps]."""
    return w.astype(np.float64).reshape(groups, len(w) // groups, w.shape[1], -1)


def _read(x: Array, groups: int, window: Array) -> Array:
    """Returns what each tap reads: [n, groups, channels, results, taps]."""
    return np.pad(_grouped(x, groups), [(0, 0)] * 3 + [(0, 1)])[..., window]


def _result(x: Array, w: Array, groups: int, window: Array, shape: tuple[int, ...]) -> Array:
    """Returns the convolution of an image."""
    out = np.einsum("ngcrt,goct->ngor", _read(x, groups, window), _kernel(w, groups))
    return np.asarray(out).reshape(shape)


def _image(y: Array, w: Array, groups: int, window: Array, shape: tuple[int, ...]) -> Array:
    """Returns the transposed convolution: each tap adds its products to the elements it reads."""
    terms = np.einsum("ngor,goct->ngcrt", _grouped(y, groups), _kernel(w, groups))
    out = np.zeros((*terms.shape[:3], math.prod(shape[2:]) + 1))
    np.add.at(np.moveaxis(out, 3, 0), window, np.moveaxis(terms, (3, 4), (0, 1)))
    return out[..., :-1].reshape(shape)


def _gradient(
    ct: Array,
    x: Array,
    w: Array,
    _: Array,
    *,
    wrt: int,
    groups: int,
    window: Array,
    transposed: bool,
) -> Array:
    if wrt == 0:
        return (_result if transposed else _image)(ct, w, groups, window, x.shape)
    image, result = (ct, x) if transposed else (x, ct)
    out = np.einsum("ngcrt,ngor->goct", _read(image, groups, window), _grouped(result, groups))
    return np.asarray(out).reshape(w.shape)


#: By the number of dimensions: the shapes of input, weight and bias, the stride, the padding, the
#: dilation, the number of groups. PyTorch refuses a stride with the padding "same".
_CALLS: Mapping[int, Sequence[tuple[Any, ...]]] = {
    1: [
        ([(35, 8), (3, 35, 3)], 1, "same", (1,), 1),
        ([(3, 9, 8), (9, 3, 1)], (3,), "valid", (1,), 3),
    ],
    2: [
        ([(2, 3, 5, 7), (2, 3, 2, 1)], (1, 2), (3, 1), (2, 1), 1),
        ([(4, 8, 8), (6, 4, 3, 3), (6,)], (2,), 0, 1, 1),
    ],
    3: [
        ([(2, 3, 7, 1, 3), (1, 3, 1, 1, 2)], 1, "same", (1, 2, 1), 1),
        ([(2, 4, 7, 5, 5), (6, 2, 2, 2, 1), (6,)], (2, 2, 3), "valid", (2, 1, 2), 2),
    ],
}
#: The same of transposed convolutions, and the padding of the output. PyTorch refuses an empty
#: result, but not in each dtype, so that no call has one.
_TRANSPOSED_CALLS: Mapping[int, Sequence[tuple[Any, ...]]] = {
    1: [
        ([(2, 8), (2, 3, 3), (3,)], (1,), (0,), (1,), 1, (0,)),
        ([(3, 1, 6), (1, 3, 1)], (3,), (1,), (1,), 1, (1,)),
    ],
    2: [
        ([(3, 6, 7, 5), (6, 3, 2, 3), (9,)], (2, 2), (2, 2), (1, 1), 3, (0, 0)),
        ([(4, 1, 1), (4, 6, 3, 3)], 1, (1, 0), 1, 1, 0),
    ],
    3: [([(3, 1, 6, 8, 8), (1, 2, 3, 3, 3)], (3, 2, 2), (1, 2, 2), (1, 1, 1), 1, (0, 1, 1))],
}


def _forms(dims: int, *, transposed: bool) -> Iterator[Form]:
    names = ("stride", "padding", "dilation", "groups", "output_padding")
    for number, (shapes, *rest) in enumerate((_TRANSPOSED_CALLS if transposed else _CALLS)[dims]):
        dtype = np.complex64 if dims == 2 and number == 0 else np.float32
        rng = np.random.default_rng(number)
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        yield form(*arrays, **dict(zip(names, rest, strict=False)))
    weight = (3, 4) if transposed else (4, 3)
    tried = form(
        spread(2, 3, *SIDES[dims]), spread(*weight, *[2] * dims), spread(4), stride=2, padding=1
    )
    yield tried.having(same_bits=False, name="" if dims == 2 else None)


def _errors(dims: int, *, transposed: bool) -> Iterator[ErrorInput]:
    """Yields options and shapes that do not fit an image of 4 channels."""
    image, channels = ones(2, 4, *[8] * dims), (4, 6) if transposed else (6, 4)
    weight, small = ones(*channels, *[3] * dims), image[(slice(1), slice(None), *[slice(1)] * dims)]
    words = f"{dims + 1}D (unbatched) or {dims + 2}D (batched) input, but got"
    yield refused(RuntimeError, words, image[0, 0], weight)
    yield refused(RuntimeError, words, image[None], weight)
    yield refused(RuntimeError, f"{dims + 2}D weight, but got weight of size: ", image, weight[0])
    other = weight[:3] if transposed else weight[:, :3]
    yield refused(RuntimeError, "to have 3 channels, but got 4", image, other)
    for words, options in (
        ("non-positive groups is not supported, got 0", {"groups": 0}),
        ("non-positive groups", {"groups": -1}),
        ("divisible by 3 at dimension 0", {"groups": 3})
        if transposed
        else ("divisible by 4 at dimension 0", {"groups": 4}),
        ("non-positive stride is not supported", {"stride": 0}),
        ("non-positive stride", {"stride": (*[1] * (dims - 1), -1)}),
        (f"an int or {dims} of them, but got {dims + 1}", {"stride": (1,) * (dims + 1)}),
        ("non-positive dilation is not supported", {"dilation": 0}),
        ("negative padding is not supported", {"padding": -1}),
    ):
        yield refused(RuntimeError, words, image, weight, **options)
    yield refused(RuntimeError, "6 elements, but got bias of size [5]", image, weight, ones(5))
    yield refused(RuntimeError, "bias of size [6, 1] instead", image, weight, ones(6, 1))
    narrow = weight.astype(np.float16)
    yield refused(RuntimeError, "input (float32) and weight (float16)", image, narrow)
    integers = ones(6, dtype=np.int32)
    yield refused(RuntimeError, "(float32) and bias (int32)", image, weight, integers)
    yield refused(NotImplementedError, "not implemented for bool", image > 0, weight > 0)
    if not transposed:
        yield refused(RuntimeError, "weight to be at least 1 at dimension 0", image, weight[:0])
        yield refused(RuntimeError, "has no taps", image, weight[..., :0])
        yield refused(RuntimeError, f"{dims} of them, but got 0", image, weight, stride=())
        words = "'valid', 'same', but got 'full'"
        yield refused(RuntimeError, words, image, weight, padding="full")
        words = f"not supported for strided convolutions, but got stride {[2] * dims}"
        yield refused(RuntimeError, words, image, weight, padding="same", stride=2)
        yield refused(RuntimeError, "can't be greater than actual input", small, weight)
        words = f"per channel: {[8] * dims}. Kernel size: {[9] * dims}"
        yield refused(RuntimeError, words, image, weight, dilation=4)
        yield refused(RuntimeError, "input size per channel: [0", image[:, :, :0], weight)
        return
    yield refused(RuntimeError, "at least 1 at dimension 0", image[:, :0], weight[:0])
    yield refused(TypeError, "'padding' must be int, not str", image, weight, padding="same")
    yield refused(TypeError, "must be int, not float", image, weight, output_padding=0.5)
    for words, array, options in (
        ("negative output_padding", image, {"output_padding": -1}),
        ("be smaller than either stride or dil", image, {"output_padding": 2, "stride": 2}),
        ("Only zero batch or zero channel", image[:, :, :0], {}),
        ("Output size is too small", small, {"padding": 2}),
    ):
        yield refused(RuntimeError, words, array, weight, **options)


def _plain(jax: Any, x: Any, weight: Any, bias: Any, *, transposed: bool) -> Any:
    """Computes a convolution of the same work in plain JAX."""
    dims = x.ndim - 2
    axes = "".join("DHW"[-dims:])
    if not transposed:
        out = jax.lax.conv_general_dilated(x, weight, (2,) * dims, [(1, 1)] * dims)
    else:
        layouts = (f"NC{axes}", f"IO{axes}", f"NC{axes}")
        strides = (2,) * dims
        out = jax.lax.conv_transpose(x, weight, strides, "VALID", dimension_numbers=layouts)
    return out + bias.reshape(-1, *[1] * dims)


OPS = tuple(
    OpInfo(
        f"nn.functional.{name}{dims}d",
        functools.partial(_samples, dims, transposed=transposed),
        functools.partial(_forms, dims, transposed=transposed),
        functools.partial(_errors, dims, transposed=transposed),
        plain=functools.partial(_plain, transposed=transposed),
        tolerance=3,
    )
    for name, transposed in (("conv", False), ("conv_transpose", True))
    for dims in (1, 2, 3)
)
