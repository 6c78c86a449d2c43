"""Samples of affine_grid and grid_sample."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import Array
from conformance.cases._forms import normal, numbers, ones, spread, unlike_torch
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles

#: Sizes so large that the order of additions changes bits.
_SIZES = {"plane": (2, 3, 30, 40), "volume": (2, 1, 9, 11, 10), "narrow": (1, 1, 12, 20)}


def _affine_grid(d: Draw) -> Iterator[Sample]:
    """Yields two and three dimensions, with both meanings of the corners, and bfloat16."""
    for name, usual in _SIZES.items():
        size, dims = d.sizes(usual, 1), len(usual) - 2
        align = name == "volume"
        dtype = bfloat16 if name == "narrow" else np.float32
        yield Sample(
            name=name,
            call=lambda ns, t, size=size, align=align: ns.nn.functional.affine_grid(t, size, align),
            arrays=(d.values((size[0], dims, dims + 1), dtype),),
            ordered=lambda t, size=size, align=align: _ordered(t, size, align),
            wrt=0,
            ordered_gradient=lambda ct, t, size=size, align=align: _gradient(ct, size, align),
        )


def _coordinates(length: int, align: bool) -> Array:
    edges = np.linspace(-1, 1, 2 * length + 1)  # the edges and the centres of elements
    return np.linspace(-1, 1, length) if align and length > 1 else edges[1::2]


def _points(size: tuple[int, ...], align: bool) -> Array:
    """Returns x, y, z (in three dimensions) and 1 for every element, in the last dimension."""
    along = [_coordinates(length, align) for length in size[2:]]
    mesh = np.meshgrid(*along, indexing="ij")
    return np.stack([*mesh[::-1], np.ones(size[2:])], axis=-1)


def _ordered(theta: Array, size: tuple[int, ...], align: bool) -> Array:
    points = _points(size, align).astype(np.float32)
    columns = np.swapaxes(theta.astype(np.float32), 1, 2)
    grid = oracles.nearest_product(points.reshape(-1, len(columns[0])), columns, np.float32)
    return grid.reshape(len(theta), *size[2:], -1).astype(theta.dtype)


def _gradient(ct: Array, size: tuple[int, ...], align: bool) -> Array:
    points = _points(size, align).astype(np.float32)
    rows = np.swapaxes(ct.astype(np.float32).reshape(size[0], -1, ct.shape[-1]), 1, 2)
    flat = points.reshape(-1, points.shape[-1])
    return oracles.nearest_product(rows, flat, np.float32).astype(ct.dtype)


_POSITIONS = (
    "Positions are found in float32; PyTorch finds them in bfloat16, which rounds elsewhere."
)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call without its arrays."""

    shape: tuple[int, ...]
    samples: tuple[int, ...]
    mode: str
    padding: str
    align: bool
    dtype: Any = np.float32

    def __call__(self, ns: Any, x: Any, g: Any) -> Any:
        return ns.nn.functional.grid_sample(x, g, self.mode, self.padding, self.align)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.shape[2:]


#: Many samples read each of the few elements of an input. One input has more channels than a tile.
_CALLS = {
    "bilinear": _Call((2, 21, 3, 4), (30, 25), "bilinear", "zeros", align=False),
    "reflected": _Call((1, 5, 4, 3), (20, 15), "bilinear", "reflection", align=False),
    "bicubic": _Call((2, 4, 5, 4), (12, 11), "bicubic", "reflection", align=True),
    "nearest": _Call((1, 3, 3, 4), (40, 30), "nearest", "border", align=False, dtype=bfloat16),
    "volume": _Call((1, 4, 2, 3, 2), (7, 8, 9), "bilinear", "border", align=True),
}


def _grid_sample(d: Draw) -> Iterator[Sample]:
    """Yields every mode and padding, with the gradients of the input and of the grid."""
    for (name, usual), wrt in itertools.product(_CALLS.items(), (0, 1)):
        shape, samples = d.sizes(usual.shape, 1), d.sizes(usual.samples, 1)
        call = dataclasses.replace(usual, shape=shape, samples=samples)
        if wrt == 1 and call.mode == "nearest":
            continue  # The gradient is 0, and the op does not compute it.
        yield Sample(
            name=f"{name}_{('input', 'grid')[wrt]}",
            call=call,
            arrays=(
                d.values(call.shape, call.dtype),
                d.values((call.shape[0], *call.samples, len(call.sizes)), call.dtype)
                * call.dtype(0.6),
            ),
            expected=functools.partial(_expected, call),
            wrt=wrt,
            ordered_gradient=functools.partial(_ordered_of_input, call) if wrt == 0 else None,
            expected_gradient=functools.partial(_expected_of_grid, call) if wrt == 1 else None,
            choices=dict.fromkeys(("forward", "backward"), _POSITIONS)
            if call.dtype is bfloat16
            else {},
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Along:
    """The taps of all samples along one dimension.

    Attributes:
        positions: The position of each tap. A position outside the input reads a zero.
        weights: The weight of each tap.
        slopes: The derivative of each weight with respect to the position.
        factors: The factors of the derivative of the position with respect to the grid, in the
            order of the products.
    """

    positions: list[Array]
    weights: list[Array]
    slopes: list[Array]
    factors: list[Array]


def _along(call: _Call, g: Array, size: int) -> _Along:
    number = np.float32
    if call.align:
        x, scale = (g + 1) * number((size - 1) / 2), (size - 1) / 2
    else:
        x, scale = ((g + 1) * number(size) - 1) * number(0.5), size / 2
    factors = [np.full_like(x, scale)]
    if call.mode != "bicubic":
        x, signs = _padded(call, x, size)
        factors = [*signs, *factors]
    if call.mode == "nearest":
        return _Along([np.rint(x)], [np.ones_like(x)], [np.zeros_like(x)], factors)
    whole = np.floor(x)
    t = x - whole
    if call.mode == "bilinear":
        one = np.ones_like(t)
        return _Along([whole, whole + 1], [1 - t, t], [-one, one], factors)
    positions = [_padded(call, whole + step, size)[0] for step in range(-1, 3)]
    a = number(-0.75)
    u, v, w = t + 1, 1 - t, 2 - t
    weights = [_far(a, u), _near(a, t), _near(a, v), _far(a, w)]
    slopes = [_far_slope(a, u), _near_slope(a, t), -_near_slope(a, v), -_far_slope(a, w)]
    return _Along(positions, weights, slopes, factors)


def _near(a: Any, x: Array) -> Any:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(a: Any, x: Array) -> Any:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _near_slope(a: Any, x: Array) -> Any:
    return (3 * (a + 2) * x - 2 * (a + 3)) * x


def _far_slope(a: Any, x: Array) -> Any:
    return (3 * a * x - 10 * a) * x + 8 * a


def _padded(call: _Call, x: Array, size: int) -> tuple[Array, list[Array]]:
    """Returns the position after padding, and the factors of its derivative.

    A factor is 0 where the position is clipped, and -1 where it is reflected.
    """
    if call.padding == "zeros":
        return x, []
    signs = []
    if call.padding == "reflection":
        edge, period = (0, 2 * (size - 1)) if call.align else (np.float32(-0.5), 2 * size)
        if not period:
            return np.zeros_like(x), [np.zeros_like(x)]
        beyond = x - edge
        distance = np.abs(beyond)
        rest = distance - np.floor(distance * np.float32(1 / period)) * np.float32(period)
        rest = np.where(rest < 0, rest + period, np.where(rest >= period, rest - period, rest))
        reflected = rest >= period / 2
        x = np.where(reflected, period - rest, rest) + edge
        signs = [np.where(reflected, -1, 1), np.where(beyond < 0, -1, 1)]
    clipped = (x <= 0) | (x >= size - 1)
    return np.clip(x, 0, size - 1), [np.where(clipped, 0, 1), *signs]


def _taps(call: _Call, g: Array) -> tuple[Array, Array, list[Array], list[_Along]]:
    """Returns the elements, their weights, the derivatives of the weights, and the taps by axis.

    The arrays have the shape [n, samples, taps]. The derivatives, and the taps, are in the order
    x, y, and so on.
    """
    flat = g.astype(np.float32).reshape(len(g), -1, len(call.sizes))
    along = [_along(call, flat[..., d], size) for d, size in enumerate(call.sizes[::-1])]
    taps = [t[::-1] for t in itertools.product(range(len(along[0].weights)), repeat=len(along))]

    def products(factors: list[list[Array]]) -> Array:
        by_tap = [[f[k] for f, k in zip(factors, tap, strict=True)] for tap in taps]
        return np.stack([functools.reduce(np.multiply, terms) for terms in by_tap], axis=-1)

    weights = [dim.weights for dim in along]
    slopes = [
        products([*weights[:d], dim.slopes, *weights[d + 1 :]]) for d, dim in enumerate(along)
    ]
    elements = []
    for tap in taps:
        position = [dim.positions[k].astype(int) for dim, k in zip(along, tap, strict=True)][::-1]
        inside = [(p >= 0) & (p < size) for p, size in zip(position, call.sizes, strict=True)]
        index = np.ravel_multi_index(position, call.sizes, mode="clip")
        elements.append(np.where(np.all(inside, axis=0), index, -1))
    return np.stack(elements, axis=-1), products(weights), slopes, along


def _read(x: Array, elements: Array) -> Array:
    """Returns the elements of all channels: [n, samples, taps, channels]."""
    rows = np.moveaxis(x.reshape(*x.shape[:2], -1).astype(np.float32), 1, 2)
    read = rows[np.arange(len(x))[:, None, None], elements]
    return np.where(elements[..., None] >= 0, read, np.float32(0))


def _expected(call: _Call, x: Array, g: Array) -> Array:
    elements, weights, _, _ = _taps(call, g)
    out = (_read(x, elements) * weights[..., None].astype(np.float64)).sum(2)
    return np.asarray(np.moveaxis(out, 2, 1)).reshape(*call.shape[:2], *call.samples)


def _ordered_of_input(call: _Call, ct: Array, x: Array, g: Array) -> Array:
    """Adds contributions in the order of samples, and for each sample in the order of taps."""
    elements, weights, _, _ = _taps(call, g)
    out = []
    for rows, e, w in zip(ct.reshape(*ct.shape[:2], -1), elements, weights, strict=True):
        terms = rows.T.astype(np.float32)[:, None, :] * w[:, :, None]
        zeros = np.zeros((np.prod(call.sizes), len(rows)), x.dtype)
        out.append(oracles.source(zeros, e.reshape(-1), terms.reshape(-1, len(rows))).T)
    return np.stack(out).reshape(x.shape)


def _expected_of_grid(call: _Call, ct: Array, x: Array, g: Array) -> Array:
    elements, _, slopes, along = _taps(call, g)
    ct_rows = np.moveaxis(ct.reshape(*ct.shape[:2], -1).astype(np.float64), 1, 2)
    totals = (_read(x, elements) * ct_rows[:, :, None, :]).sum(3)
    out = []
    for dim, slope in zip(along, slopes, strict=True):
        total = (totals * slope).sum(2)
        for factor in dim.factors:
            total = np.where(factor == 0, 0, total * factor)
        out.append(total)
    return np.stack(out, axis=-1).reshape(g.shape).astype(g.dtype)


def _forms_of_samples() -> Iterator[Form]:
    kinds = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
    choices = itertools.product(("zeros", "border", "reflection"), kinds)
    for number, (padding, (dims, mode)) in enumerate(choices):
        rng = np.random.default_rng((dims, *mode.encode(), *padding.encode()))
        batch, channels, *_ = numbers(rng, 4, 2)
        sizes, samples = numbers(rng, 7, dims), numbers(rng, 7, dims)
        grid = normal(batch, *samples, dims) * np.float32(1.3)
        yield form(normal(batch, channels, *sizes), grid, mode, padding, number % 2 > 0)
    for shape, place in (((0, 2, 3, 3), (2, 2)), ((1, 0, 3, 3), (2, 2)), ((1, 2, 3, 3), (0, 2))):
        yield form(normal(*shape), normal(shape[0], *place, 2), align_corners=False)
    # Elements and the midpoints between them, where the nearest element is the even one.
    every = itertools.product(
        (False, True), ("bilinear", "nearest"), ("zeros", "border", "reflection")
    )
    for align, mode, padding in every:
        along = [np.arange(-3, 3 * n) / (n - align) - 1 for n in (5, 4)]
        grid = np.stack(np.meshgrid(*along), -1)[None].astype(np.float32)
        yield form(normal(1, 2, 4, 5), grid, mode, padding, align)
    grid = np.random.default_rng(8).uniform(-1, 1, (2, 3, 2, 2)).astype(np.float32)
    yield form(spread(2, 3, 4, 5), grid).named(smooth=False, same_bits=False)


def _errors_of_samples() -> Iterator[ErrorInput]:
    x, grid = ones(1, 2, 4, 3), ones(1, 5, 6, 2)
    volume = ones(1, 2, 4, 3, 2), ones(1, 5, 6, 7, 3)
    yield refused(ValueError, "expected mode to be one of 'bilinear'", x, grid, "trilinear")
    yield refused(ValueError, "but got: 0", x, grid, 0)
    yield refused(ValueError, "expected padding_mode", x, grid, "nearest", "wrap")
    yield refused(RuntimeError, "4D or 5D input", x[0], grid)
    yield refused(RuntimeError, "same number of dimensions", x, grid[0])
    yield refused(RuntimeError, "grid with sizes [1, 5, 6, 7, 3]", x, volume[1])
    yield refused(RuntimeError, "same batch size", x, np.concatenate([grid, grid]))
    yield refused(RuntimeError, "to have size 2 in last dimension", x, grid[..., :1])
    yield refused(RuntimeError, "with dimension 2 being empty", x[:, :, :0], grid)
    yield refused(RuntimeError, "only supports 4D input", *volume, "bicubic")
    yield refused(NotImplementedError, "it takes floats", x.astype(int), grid.astype(int))
    yield refused(NotImplementedError, "complex64", x.astype(np.complex64), grid)
    yield refused(RuntimeError, "float32 and float16", x.astype(np.float16), grid)


def _errors_of_affine_grid() -> Iterator[ErrorInput]:
    theta = ones(1, 2, 3)
    yield refused(TypeError, "must be int, not float", theta, (1, 1, 2.0, 2))
    yield refused(NotImplementedError, "got size [1, 1, 2]", theta, (1, 1, 2))
    yield refused(ValueError, "shape Nx3x4", theta, (1, 1, 2, 2, 2))
    yield refused(ValueError, "but got [2, 3]", theta[0], (1, 1, 2, 2))
    yield refused(ValueError, "floating point type", theta.astype(int), (1, 1, 2, 2))
    yield refused(ValueError, "positive output size", theta, (1, 1, 0, 2))
    yield refused(RuntimeError, "(2), but got 1", theta, (2, 1, 2, 2))


# PyTorch takes arguments that these ops refuse, or has other exceptions.
OPS = (
    OpInfo(
        "nn.functional.affine_grid",
        _affine_grid,
        lambda: [
            *(
                form(normal(size[0], len(size) - 2, len(size) - 1), size, align)
                for size in [(2, 3, 4, 5), (1, 1, 1, 3), (2, 1, 2, 4, 3)]
                for align in (True, False)
            ),
            form(spread(2, 2, 3), (2, 1, 3, 4)).named(same_bits=False),
        ],
        lambda: unlike_torch(*_errors_of_affine_grid()),
    ),
    OpInfo(
        "nn.functional.grid_sample",
        _grid_sample,
        _forms_of_samples,
        lambda: unlike_torch(*_errors_of_samples()),
        wide=5,
        tolerance=20,
    ),
)
