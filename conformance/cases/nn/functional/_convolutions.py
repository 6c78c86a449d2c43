"""Calls of conv and conv_transpose, in one to three dimensions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import Array, values

#: Sizes of an image, and a kernel, a stride, a dilation and a padding for each.
_SIZES = {1: (40,), 2: (9, 11), 3: (4, 7, 6)}
_KERNEL = {1: (5,), 2: (3, 2), 3: (2, 3, 2)}
_STRIDE = {1: (3,), 2: (1, 2), 3: (2, 1, 1)}
_DILATION = {1: (2,), 2: (2, 1), 3: (1, 2, 1)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 1)}
#: With respect to what gradients are tried.
_WRT = {1: (1,), 2: (0, 1), 3: (0,)}


def samples(dims: int, *, transposed: bool) -> Iterator[Sample]:
    """Windows that overlap, with zeros around the image, in two groups; and a bias."""
    op = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    stride, dilation, padding = _STRIDE[dims], _DILATION[dims], _PADDING[dims]
    read = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(
            _SIZES[dims], _KERNEL[dims], stride, dilation, padding, strict=True
        )
    )
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 2}
    image, result = (2, 4, *_SIZES[dims]), (2, 6, *read)
    weight = values((6, 2, *_KERNEL[dims]), np.float32)
    if transposed:
        # So that the image has the size that the convolution had.
        more = [
            n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, o, s, p, d, k in zip(
                _SIZES[dims], read, stride, padding, dilation, _KERNEL[dims], strict=True
            )
        ]
        options["output_padding"] = tuple(more)
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
            expected_pullback=functools.partial(
                _of_input if wrt == 0 else _of_weight,
                of_input=of_input,
                geometry=geometry,
                transposed=transposed,
            ),
        )


def _of_input(
    ct: Array, x: Array, w: Array, b: Array, *, of_input: Any, geometry: Any, transposed: bool
) -> Array:
    del x, b, transposed
    return np.asarray(of_input(ct, w, geometry))


def _of_weight(
    ct: Array, x: Array, w: Array, b: Array, *, of_input: Any, geometry: Any, transposed: bool
) -> Array:
    del b, of_input
    image, result = (ct, x) if transposed else (x, ct)
    out = np.zeros(w.shape)
    for tap, read in geometry(w.shape):
        both = zip(np.split(read(image), 2, 1), np.split(result, 2, 1), strict=True)
        parts = [np.einsum("nip,nop->oi", _flat(i), _flat(r)) for i, r in both]
        out[(..., *tap)] = np.concatenate(parts)
    return out


def _result(x: Array, w: Array, geometry: Any) -> Array:
    out: Any = 0
    for tap, read in geometry(w.shape):
        pairs = zip(np.split(read(x), 2, 1), np.split(w[(..., *tap)], 2), strict=True)
        out = out + np.concatenate([np.einsum("ni...,oi->no...", i, f) for i, f in pairs], 1)
    return np.asarray(out)


def _image(y: Array, w: Array, geometry: Any) -> Array:
    """What every element of the result, times a tap, adds to the element that the tap reads."""
    out: Any = None
    for tap, read in geometry(w.shape):
        pairs = zip(np.split(y, 2, 1), np.split(w[(..., *tap)], 2), strict=True)
        terms = np.concatenate(
            [np.einsum("no...,oi->ni...", r, f.astype(np.float64)) for r, f in pairs], 1
        )
        out = read.add(out, terms)
    return np.asarray(out[read.inside])


class _Read:
    """What one tap reads of an image with zeros around it."""

    def __init__(self, where: Sequence[slice], room: Mapping[str, Any]) -> None:
        self.where: Any = (..., *where)
        self.room = room
        self.inside: Any = (..., *room["inside"])

    def __call__(self, image: Array) -> Array:
        wide: Array = np.zeros((*image.shape[:2], *self.room["sizes"]))
        wide[self.inside] = image
        return np.asarray(wide[self.where])

    def add(self, total: Array | None, terms: Array) -> Array:
        """Adds what was read back to where it was."""
        wide = np.zeros((*terms.shape[:2], *self.room["sizes"])) if total is None else total
        wide[self.where] += terms
        return wide


def _taps(
    shape: Sequence[int],
    *,
    image: Sequence[int],
    result: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], _Read]]:
    """The position of each tap in the kernel, and what it reads."""
    sizes = [
        n + 2 * p + s * k * d
        for n, p, s, k, d in zip(image[2:], padding, stride, shape[2:], dilation, strict=True)
    ]
    inside = [slice(p, p + n) for p, n in zip(padding, image[2:], strict=True)]
    for tap in itertools.product(*map(range, shape[2:])):
        where = [
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, dilation, result[2:], stride, strict=True)
        ]
        yield tap, _Read(where, {"sizes": sizes, "inside": inside})


def _flat(image: Array) -> Array:
    return image.astype(np.float64).reshape(*image.shape[:2], -1)
