"""Samples of conv and conv_transpose, in one to three dimensions.

The reference reads the image once for each tap of the kernel. A transposed convolution is the
gradient of a convolution with respect to its input, so both share the reference.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from conformance.cases._data import Array, values
from conformance.suite.sample import OpInfo, Sample

#: The sizes of an image by the number of dimensions, and windows that overlap.
_SIZES = {1: (40,), 2: (9, 11), 3: (4, 7, 6)}
_KERNEL = {1: (5,), 2: (3, 2), 3: (2, 3, 2)}
_STRIDE = {1: (3,), 2: (1, 2), 3: (2, 1, 1)}
_DILATION = {1: (2,), 2: (2, 1), 3: (1, 2, 1)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 1)}
#: The positions of the arguments to differentiate with respect to.
_WRT = {1: (1,), 2: (0, 1), 3: (0,)}


def _samples(dims: int, *, transposed: bool) -> Iterator[Sample]:
    """Yields windows that overlap, in a padded image, in two groups, with a bias."""
    op = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    stride, dilation, padding = _STRIDE[dims], _DILATION[dims], _PADDING[dims]
    windows = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(
            _SIZES[dims], _KERNEL[dims], stride, dilation, padding, strict=True
        )
    )
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 2}
    image, result = (2, 4, *_SIZES[dims]), (2, 6, *windows)
    weight = values((6, 2, *_KERNEL[dims]), np.float32)
    if transposed:
        # The padding that makes the image as large as the input of the convolution.
        output_padding = [
            n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, o, s, p, d, k in zip(
                _SIZES[dims], windows, stride, padding, dilation, _KERNEL[dims], strict=True
            )
        ]
        options["output_padding"] = tuple(output_padding)
    geometry = functools.partial(
        _taps, image=image, result=result, stride=stride, dilation=dilation, padding=padding
    )
    forward, of_input = (_image, _result) if transposed else (_result, _image)
    for wrt in _WRT[dims]:
        yield Sample(
            name=f"gradient of {('input', 'weight')[wrt]}",
            facts={"dtype": "floating", "input_ndim": dims + 2},
            call=lambda ns, x, w, b: getattr(ns.nn.functional, op)(x, w, b, **options),
            arrays=(
                values(result if transposed else image, np.float32, 1),
                weight,
                values((4 if transposed else 6,), np.float32),
            ),
            expected=lambda x, w, b: forward(x, w, geometry) + b.reshape(-1, *(1,) * dims),
            wrt=wrt,
            expected_gradient=functools.partial(
                _gradient_of_input if wrt == 0 else _gradient_of_weight,
                of_input=of_input,
                geometry=geometry,
                transposed=transposed,
            ),
        )


class _Tap:
    """The elements of a padded image that one tap of the kernel reads.

    Args:
        read: The slice of each dimension of the padded image that the tap reads.
        sizes: The sizes of the padded image.
        inside: The slice of each dimension that the image itself takes.
    """

    def __init__(
        self, read: Sequence[slice], sizes: Sequence[int], inside: Sequence[slice]
    ) -> None:
        self.read: Any = (..., *read)
        self.sizes = sizes
        self.inside: Any = (..., *inside)

    def __call__(self, image: Array) -> Array:
        padded: Array = np.zeros((*image.shape[:2], *self.sizes))
        padded[self.inside] = image
        return np.asarray(padded[self.read])

    def add(self, total: Array | None, terms: Array) -> Array:
        """Adds a term to each element of the padded image that the tap reads."""
        padded = np.zeros((*terms.shape[:2], *self.sizes)) if total is None else total
        padded[self.read] += terms
        return padded


#: Maps the shape of the weights to the indices of each tap in the kernel, and the tap.
Geometry: TypeAlias = Callable[[Sequence[int]], Iterator[tuple[Any, _Tap]]]


def _gradient_of_input(
    ct: Array, x: Array, w: Array, b: Array, *, of_input: Any, geometry: Geometry, transposed: bool
) -> Array:
    del x, b, transposed
    return np.asarray(of_input(ct, w, geometry))


def _gradient_of_weight(
    ct: Array, x: Array, w: Array, b: Array, *, of_input: Any, geometry: Geometry, transposed: bool
) -> Array:
    del b, of_input
    image, result = (ct, x) if transposed else (x, ct)
    out = np.zeros(w.shape)
    for indices, tap in geometry(w.shape):
        groups = zip(np.split(tap(image), 2, 1), np.split(result, 2, 1), strict=True)
        parts = [np.einsum("nip,nop->oi", _flat(i), _flat(r)) for i, r in groups]
        out[(..., *indices)] = np.concatenate(parts)
    return out


def _result(x: Array, w: Array, geometry: Geometry) -> Array:
    """Returns the convolution of an image."""
    out: Any = 0
    for indices, tap in geometry(w.shape):
        groups = zip(np.split(tap(x), 2, 1), np.split(w[(..., *indices)], 2), strict=True)
        out = out + np.concatenate([np.einsum("ni...,oi->no...", i, f) for i, f in groups], 1)
    return np.asarray(out)


def _image(y: Array, w: Array, geometry: Geometry) -> Array:
    """Returns the transposed convolution: each tap adds its products to the elements it reads."""
    out: Any = None
    for indices, tap in geometry(w.shape):
        groups = zip(np.split(y, 2, 1), np.split(w[(..., *indices)], 2), strict=True)
        terms = np.concatenate(
            [np.einsum("no...,oi->ni...", r, f.astype(np.float64)) for r, f in groups], 1
        )
        out = tap.add(out, terms)
    return np.asarray(out[tap.inside])


def _taps(
    shape: Sequence[int],
    *,
    image: Sequence[int],
    result: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], _Tap]]:
    """Yields the indices of each tap in the kernel, and the tap."""
    sizes = [
        n + 2 * p + s * k * d
        for n, p, s, k, d in zip(image[2:], padding, stride, shape[2:], dilation, strict=True)
    ]
    inside = [slice(p, p + n) for p, n in zip(padding, image[2:], strict=True)]
    for indices in itertools.product(*map(range, shape[2:])):
        read = [
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(indices, dilation, result[2:], stride, strict=True)
        ]
        yield indices, _Tap(read, sizes, inside)


def _flat(image: Array) -> Array:
    return image.astype(np.float64).reshape(*image.shape[:2], -1)


OPS = tuple(
    OpInfo(f"nn.functional.{name}{dims}d", functools.partial(_samples, dims, transposed=transposed))
    for name, transposed in (("conv", False), ("conv_transpose", True))
    for dims in (1, 2, 3)
)
