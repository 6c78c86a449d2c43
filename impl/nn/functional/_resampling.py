"""The op ``interpolate``: resizes the spatial dimensions of an array.

An ``Axis`` computes the indices and weights of a dimension. The result is a weighted sum
over windows. Indices and weights depend on shapes and options alone, so they are constants of the
program, and the ordered path of the gradient adds the windows over an element in ascending order.
For 2 elements that become 4 (-1 stands for no element)::

    operand                  [10., 20.]
    indices for "linear"     [0, -1]  [0, 1]        [0, 1]        [1, -1]
    weights                  [1, 0]   [0.75, 0.25]  [0.25, 0.75]  [1, 0]
    result                   [10., 12.5, 17.5, 20.]
    cotangent                [1., 2., 3., 4.]
    gradient                 [1 + 0.75 * 2 + 0.25 * 3, 0.25 * 2 + 0.75 * 3 + 4] = [3.25, 6.75]
    indices for "nearest"    0, 0, 1, 1             the result is [10., 10., 20., 20.]
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.alert import alert_pullback
from impl._mode.decide import decide
from impl.nn.functional import _windows
from impl.nn.functional._windows import WindowTable
from impl.ops._op import op

#: The numbers of spatial dimensions that each mode accepts.
_MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
    "area": (1, 2, 3),
}
_SMOOTH = ("linear", "bilinear", "bicubic", "trilinear")
_NAME = "interpolate"
_OF_BYTES = ("nearest", "nearest-exact", "bilinear", "bicubic")


@op("torch.nn.functional.interpolate")
def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> jax.Array:
    """Resizes an array of one, two or three spatial dimensions.

    Indices and weights are computed before the program runs, as PyTorch computes them on a CPU: in
    float64 for float64, in float32 for other dtypes. Elements of weight 0 are not read, so an
    infinity there causes no NaN. float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        input: Shape [N, C, L], [N, C, H, W] or [N, C, D, H, W], floats; for the modes
            ``"nearest"``, ``"nearest-exact"``, ``"bilinear"`` and ``"bicubic"`` also uint8. The
            last two round uint8 after each dimension, as PyTorch does. They may differ from
            PyTorch by 1, because PyTorch's weights have 16 bits, and the weights here have 32.
        size: The spatial size of the result: an int for all dimensions, or one int for each.
        scale_factor: Replaces ``size``: the size of the result is the integer part of the size of
            ``input`` times this factor. One number for all dimensions, or one for each.
        mode: ``"nearest"``, ``"nearest-exact"`` or ``"area"``; ``"linear"`` for one dimension;
            ``"bilinear"`` or ``"bicubic"`` for two; ``"trilinear"`` for three.
        align_corners: True aligns the centers of the first and of the last elements of ``input``
            and result; False aligns their outer edges. Only for ``"linear"``, ``"bilinear"``,
            ``"bicubic"`` and ``"trilinear"``.
        recompute_scale_factor: True computes positions from the ratio of the sizes, as for
            ``size`` and for ``"area"``; False or None computes them from ``scale_factor``.
        antialias: Whether to widen the kernel if the result is smaller than ``input``. Only for
            ``"bilinear"`` and ``"bicubic"``.

    Returns:
        An array in the dtype of ``input``. If a dimension keeps its size and ``scale_factor`` is
        not 1, its elements stay as they are, except in the modes ``"nearest-exact"`` and
        ``"bicubic"`` without ``antialias``.

    Raises:
        NotImplementedError: ``mode`` does not accept the dtype or the number of dimensions; or
            ``mode`` is unknown.
        OverflowError: ``scale_factor`` is infinite, and positions use the ratio of the sizes.
        RuntimeError: A size of ``input`` or of the result is 0; or ``scale_factor`` is not finite.
        ValueError: Both or neither of ``size`` and ``scale_factor`` are given; their number is not
            the number of dimensions; or ``mode`` does not have an option that is given.
    """
    input = arguments.array(_NAME, "input", input)
    dims = max(input.ndim - 2, 0)
    _check_options(mode, align_corners, recompute_scale_factor, antialias)
    sizes, factors = _sizes(input.shape[2:], size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError(
            f"{_NAME}(): recompute_scale_factor is not meaningful with an explicit size"
        )
    recomputed = bool(recompute_scale_factor) or mode == "area"
    if factors is not None:
        sizes = tuple(
            _scaled(n, factor, recomputed=recomputed)
            for n, factor in zip(input.shape[2:], factors, strict=True)
        )
    if antialias and (mode not in ("bilinear", "bicubic") or dims != 2):
        raise ValueError(
            f"{_NAME}(): antialias is for the modes 'bilinear' and 'bicubic' and 4-D inputs, "
            f"but got mode {mode!r} and shape {list(input.shape)}"
        )
    _check_input(input, mode, sizes)
    real = np.float64 if input.dtype == jnp.float64 else np.float32
    axes = tuple(
        Axis(n, m, factor, bool(align_corners), real)
        for n, m, factor in zip(
            input.shape[2:],
            sizes,
            (None,) * dims if factors is None or recomputed else factors,
            strict=True,
        )
    )
    tables = _tables(axes, mode, antialias=antialias)
    facts = arguments.facts(input, mode=mode, antialias=antialias)
    decision = decide(f"nn.functional.{_NAME}", "backward", **facts)
    compute: Callable[..., jax.Array] = _windows.mean_of_tables
    if mode != "area":
        compute = _of_bytes if input.dtype == jnp.uint8 else _windows.sums
    return alert_pullback(compute(input, tables), decision)


def _check_options(mode: Any, align_corners: Any, recompute: Any, antialias: Any) -> None:
    arguments.choice(_NAME, "mode", mode, tuple(_MODES), NotImplementedError)
    arguments.flags(_NAME, antialias=antialias)
    for name, value in (("align_corners", align_corners), ("recompute_scale_factor", recompute)):
        if value is not None:
            arguments.flags(_NAME, **{name: value})
    if align_corners is not None and mode not in _SMOOTH:
        raise ValueError(
            f"{_NAME}(): align_corners is for the modes {', '.join(map(repr, _SMOOTH))}, but "
            f"got mode {mode!r}; leave it None"
        )


def _sizes(
    shape: tuple[int, ...], size: Any, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Returns the spatial sizes of ``size``, or the factors of ``scale_factor``."""
    if size is not None and scale_factor is not None:
        raise ValueError(f"{_NAME}(): only one of size and scale_factor may be given, but got both")
    if size is None and scale_factor is None:
        raise ValueError(f"{_NAME}(): either size or scale_factor must be given, but got neither")
    name, value = ("size", size) if scale_factor is None else ("scale_factor", scale_factor)
    if not isinstance(value, Sequence) or isinstance(value, str):
        value = (value,) * len(shape)
    if len(value) != len(shape):
        raise ValueError(
            f"{_NAME}(): argument '{name}' must have one element or one for each of the "
            f"spatial dimensions {list(shape)} of 'input', but got {list(value)}"
        )
    if scale_factor is None:
        return tuple(arguments.integer(_NAME, name, item) for item in value), None
    for item in value:
        if not isinstance(item, numbers.Real):
            raise arguments.wrong_type(_NAME, name, "float", item)
    return (), tuple(float(item) for item in value)


def _scaled(length: int, factor: float, *, recomputed: bool) -> int:
    """Returns the integer part of ``length * factor``."""
    if not math.isfinite(factor):
        # PyTorch computes a recomputed size in Python, so the exception is int()'s.
        of_int: type[Exception] = ValueError if math.isnan(factor) else OverflowError
        raise (of_int if recomputed else RuntimeError)(
            f"{_NAME}(): argument 'scale_factor' must be finite, but got {factor}"
        )
    return int(length * factor)


def _check_input(input: jax.Array, mode: str, sizes: tuple[int, ...]) -> None:
    dims = input.ndim - 2
    if dims not in _MODES[mode]:
        allowed = " or ".join(f"{n + 2}D" for n in _MODES[mode])
        raise NotImplementedError(
            f"{_NAME}(): Got {input.ndim}D input, but mode {mode!r} needs {allowed} input"
        )
    bytes_allowed = mode in _OF_BYTES
    floats = arguments.dtype_kind(input.dtype) == "floating"
    if not floats and not (bytes_allowed and input.dtype == jnp.uint8):
        raise NotImplementedError(
            f"{_NAME}(): mode {mode!r} is not implemented for {input.dtype} in argument "
            f"'input'; it takes floats{' and uint8' if bytes_allowed else ''}"
        )
    if mode == "area":
        _windows.pooled(_NAME, dims, input, channels_may_be_empty=True)
    elif min(*input.shape[2:], *sizes) <= 0:
        raise RuntimeError(
            f"{_NAME}(): Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape[2:])} output {list(sizes)}"
        )
    elif input.shape[1] == 0:
        raise RuntimeError(
            f"{_NAME}(): expected an input with channels, but got shape {list(input.shape)}"
        )


def _tables(axes: tuple[Axis, ...], mode: str, *, antialias: bool) -> tuple[WindowTable, ...]:
    if mode == "area":
        sizes, outputs = [axis.inputs for axis in axes], [axis.outputs for axis in axes]
        return _windows.adaptive(_NAME, sizes, outputs, none_allowed=False)
    if mode in ("nearest", "nearest-exact"):
        return tuple(axis.nearest(exact=mode == "nearest-exact") for axis in axes)
    if antialias:
        return tuple(axis.antialiased(cubic=mode == "bicubic") for axis in axes)
    return tuple(axis.cubic() if mode == "bicubic" else axis.linear() for axis in axes)


def _of_bytes(values: jax.Array, tables: Sequence[WindowTable]) -> jax.Array:
    """Resizes one dimension after another, the last one first, and rounds each result to uint8."""
    for dim, table in reversed(list(enumerate(tables))):
        one_dim = [
            table if other == dim else WindowTable.of(n, np.arange(n)[:, None])
            for other, n in enumerate(values.shape[2:])
        ]
        if table.weight is None:
            values = _windows.sums(values, one_dim)
        else:
            out = _windows.sums(values.astype(jnp.float32), one_dim)
            rounded = jax.lax.round(out, jax.lax.RoundingMethod.AWAY_FROM_ZERO)
            values = jnp.clip(rounded, 0, 255).astype(jnp.uint8)
    return values


_Floats: TypeAlias = npt.NDArray[Any]
_Ints: TypeAlias = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Axis:
    """One dimension of a resampling.

    A coordinate is a position in the input, measured in elements.

    Attributes:
        inputs: The length of the input.
        outputs: The length of the result.
        factor: The caller's ratio of ``outputs`` to ``inputs``; None for the ratio of the lengths.
        aligned: Whether the first, and the last, elements of input and result coincide.
        precision: float32 or float64.
    """

    inputs: int
    outputs: int
    factor: float | None
    aligned: bool
    precision: type[np.float32 | np.float64]

    @property
    def scale(self) -> Any:
        """The distance between the coordinates of two neighbours in the result."""
        real = self.precision
        if self.aligned:
            return real(self.inputs - 1) / real(self.outputs - 1) if self.outputs > 1 else real(0)
        if self.factor is None:
            return real(self.inputs) / real(self.outputs)
        return real(1 / self.factor)

    @property
    def _same_size(self) -> bool:
        return self.inputs == self.outputs

    @property
    def _positions(self) -> _Floats:
        """The positions of the elements in the result."""
        return np.arange(self.outputs).astype(self.precision)

    def coordinates(self) -> _Floats:
        """Returns the coordinate of each element of the result; it may be outside the input."""
        if self.aligned:
            return np.asarray(self._positions * self.scale)
        # PyTorch's compilers fuse the product and the subtraction, so both are rounded once. In
        # float64 the product of two float32 is exact.
        wide = (self._positions + self.precision(0.5)).astype(np.float64) * np.float64(self.scale)
        return (wide - 0.5).astype(self.precision)

    def nearest(self, *, exact: bool) -> WindowTable:
        """Reads the element below each coordinate, or with ``exact`` the element around it."""
        if exact:
            coordinate = np.maximum(self.coordinates(), self.precision(0)) + self.precision(0.5)
        else:
            coordinate = self._positions * (self.precision(1) if self._same_size else self.scale)
        below = np.floor(coordinate.astype(np.float32)).astype(np.int64)
        return WindowTable.of(self.inputs, np.minimum(below, self.inputs - 1)[:, None])

    def linear(self) -> WindowTable:
        """Weighs the two neighbours of each coordinate linearly."""
        if self._same_size:
            return self._unchanged()
        first, fraction = self._floor(np.maximum(self.coordinates(), self.precision(0)))
        index = first[:, None] + np.arange(2)
        return self._merged(index, np.stack([1 - fraction, fraction], 1))

    def cubic(self) -> WindowTable:
        """Weighs the four neighbours of each coordinate by cubic convolution."""
        first, fraction = self._floor(self.coordinates())
        index = first[:, None] + np.arange(-1, 3)
        distance = np.stack([fraction + 1, fraction, 1 - fraction, (1 - fraction) + 1], 1)
        return self._merged(index, _convolution(distance, -0.75))

    def antialiased(self, *, cubic: bool) -> WindowTable:
        """Weighs as ``linear`` or ``cubic`` do, with a kernel widened by the reduction in size."""
        if self._same_size:
            return self._unchanged()
        real, scale = self.precision, self.scale
        widened = np.maximum(scale, real(1))
        reach = real(2 if cubic else 1) * widened
        center = scale * (self._positions + real(0.5))
        start = np.maximum((center - reach + real(0.5)).astype(np.int64), 0)
        stop = np.minimum((center + reach + real(0.5)).astype(np.int64), self.inputs)
        most = 2 * int(np.ceil(reach)) + 1
        index = start[:, None] + np.arange(most)
        distance = index.astype(real) - center[:, None] + real(0.5)
        distance = np.abs(distance * (real(1) / widened))
        weight = _convolution(distance, -0.5) if cubic else np.maximum(1 - distance, real(0))
        weight = np.where(index < stop[:, None], weight, real(0))
        total = _left_to_right(weight)[:, None]
        weight = np.divide(weight, total, out=weight, where=total != 0)
        return self._merged(index, weight)

    def _unchanged(self) -> WindowTable:
        return WindowTable.of(self.inputs, np.arange(self.inputs)[:, None])

    def _floor(self, coordinate: _Floats) -> tuple[_Ints, _Floats]:
        """Splits coordinates into the index of the element below, and the fraction beyond it."""
        first = np.minimum(np.floor(coordinate).astype(np.int64), self.inputs - 1)
        fraction = np.clip(coordinate - first.astype(self.precision), 0, 1)
        return first, fraction.astype(self.precision)

    def _merged(self, index: _Ints, weight: _Floats) -> WindowTable:
        """Returns a table of ascending indices and their weights.

        An index outside the input becomes the index of the nearest element. Equal indices of a
        window become one, whose weight is their sum. An index of weight 0 is left out.
        """
        index, weight = np.clip(index, 0, self.inputs - 1), weight.copy()
        for column in range(1, index.shape[1]):
            same = index[:, column] == index[:, column - 1]
            weight[:, column] += np.where(same, weight[:, column - 1], self.precision(0))
            weight[same, column - 1] = 0
        index = np.where(weight == 0, -1, index)
        unweighted = bool((weight[index >= 0] == 1).all())
        return WindowTable.of(self.inputs, index, None if unweighted else weight)


def _convolution(distance: _Floats, a: float) -> _Floats:
    """Returns the weight of an element in cubic convolution, by its distance of 0 or more."""
    real = distance.dtype.type
    near = ((real(a + 2) * distance - real(a + 3)) * distance) * distance + 1
    far = ((real(a) * distance - real(5 * a)) * distance + real(8 * a)) * distance - real(4 * a)
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, real(0))))


def _left_to_right(values: _Floats) -> _Floats:
    """Returns the sum of each row from left to right. NumPy does not promise this order."""
    total = np.zeros_like(values[:, 0])
    for column in values.T:
        total = total + column
    return total
