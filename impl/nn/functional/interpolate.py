"""impl.nn.functional.interpolate."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.window_table import WindowTable
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert_pullback
from impl._primitives.windows import window_sum
from impl.nn.functional import _pooling
from impl.nn.functional._resampling import Axis

_NAME = "interpolate"
_OP = f"nn.functional.{_NAME}"

#: The numbers of spatial dimensions that each mode is for.
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
_OF_BYTES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> jax.Array:
    """Resizes an image, or what has one or three dimensions instead of two.

    Positions and weights are computed beforehand, in float64 for float64 and else in float32, as
    PyTorch does on a CPU, so that no position is another than there. Elements that weigh 0 are not
    read: there an infinity makes no NaN. float16 and bfloat16 are computed in float32 and rounded
    once.

    Args:
        input: Shape [N, C, L], [N, C, H, W] or [N, C, D, H, W], of floats; for ``nearest``,
            ``nearest-exact``, ``bilinear`` and ``bicubic`` of uint8 too. The last two round bytes
            after each dimension, as PyTorch does, which has weights of 16 bits where these are of
            32, and so may differ by 1.
        size: The spatial size of the result: an int for all dimensions or one for each.
        scale_factor: How many times the size of ``input`` it is, instead: a number for all
            dimensions or one for each. The size is what is left of the fraction cut off.
        mode: ``nearest``, ``nearest-exact``, ``area``; ``linear`` for one dimension, ``bilinear``
            or ``bicubic`` for two, ``trilinear`` for three.
        align_corners: Whether the first and the last elements of ``input`` and of the result lie
            on each other, or the edges of both do; only for the four interpolating modes.
        recompute_scale_factor: Whether positions go by the ratio of sizes, as they do with
            ``size`` and for ``area``, or by ``scale_factor``.
        antialias: Whether to widen the kernel where the result is smaller; only for ``bilinear``
            and ``bicubic``.

    Returns:
        Of the dtype of ``input``. A dimension that keeps its size though ``scale_factor`` is not 1
        stays as it is, but for the modes ``nearest-exact`` and ``bicubic`` without ``antialias``.

    Raises:
        NotImplementedError: The dtype, or the number of dimensions, is not one that ``mode``
            takes; or there is no such mode.
        OverflowError: ``scale_factor`` is infinite and the ratio of sizes is wanted.
        RuntimeError: A size of ``input`` or of the result is 0, or ``scale_factor`` is not
            finite; or, when differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: Both or neither of ``size`` and ``scale_factor`` are given, or there are not
            as many as dimensions; or an option is given that ``mode`` does not have.

    Source: ``torch.nn.functional.interpolate``. What the mode does, and the guarantee, are in the
    spec's rows.
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
            f"{_NAME}(): antialias is for the modes 'bilinear' and 'bicubic' and 4-D inputs, but "
            f"got mode {mode!r} and shape {list(input.shape)}"
        )
    _check_input(input, mode, sizes)
    axes = tuple(
        Axis(n, m, factor, bool(align_corners), _precision(input))
        for n, m, factor in zip(
            input.shape[2:],
            sizes,
            (None,) * dims if factors is None or recomputed else factors,
            strict=True,
        )
    )
    tables = _tables(axes, mode, antialias=antialias)
    overlapping = _pooling.overlapping(tables)
    facts = arguments.facts(input, mode=mode, antialias=antialias, overlapping=overlapping)
    decision = decide(_OP, "backward", **facts)
    return alert_pullback(_computed(input, mode, tables, decision), decision)


def _check_options(mode: Any, align_corners: Any, recompute: Any, antialias: Any) -> None:
    arguments.choice(_NAME, "mode", mode, tuple(_MODES), NotImplementedError)
    arguments.flag(_NAME, "antialias", antialias)
    for name, value in (("align_corners", align_corners), ("recompute_scale_factor", recompute)):
        if value is not None:
            arguments.flag(_NAME, name, value)
    if align_corners is not None and mode not in _SMOOTH:
        raise ValueError(
            f"{_NAME}(): align_corners is for the modes {', '.join(map(repr, _SMOOTH))}, but got "
            f"mode {mode!r}; leave it None"
        )


def _sizes(
    shape: tuple[int, ...], size: Any, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """The sizes asked for, or none and the factors."""
    if size is not None and scale_factor is not None:
        raise ValueError(f"{_NAME}(): only one of size and scale_factor may be given, but got both")
    if size is None and scale_factor is None:
        raise ValueError(f"{_NAME}(): either size or scale_factor must be given, but got neither")
    name, value = ("size", size) if scale_factor is None else ("scale_factor", scale_factor)
    if not isinstance(value, Sequence) or isinstance(value, str):
        value = (value,) * len(shape)
    if len(value) != len(shape):
        raise ValueError(
            f"{_NAME}(): argument '{name}' must have one element or one for each of the spatial "
            f"dimensions {list(shape)} of 'input', but got {list(value)}"
        )
    if scale_factor is None:
        return tuple(arguments.integer(_NAME, name, one) for one in value), None
    for one in value:
        if not isinstance(one, numbers.Real):
            raise TypeError(f"{_NAME}(): argument '{name}' must be float, not {type(one).__name__}")
    return (), tuple(float(one) for one in value)


def _scaled(length: int, factor: float, *, recomputed: bool) -> int:
    """``length`` times ``factor``, the fraction cut off."""
    if not math.isfinite(factor):
        # Where PyTorch computes it in Python, that has its own names for this.
        own: type[Exception] = ValueError if math.isnan(factor) else OverflowError
        raise (own if recomputed else RuntimeError)(
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
            f"{_NAME}(): mode {mode!r} is not implemented for {input.dtype} in argument 'input'; "
            f"it takes floats{' and uint8' if bytes_allowed else ''}"
        )
    if mode == "area":
        _pooling.pooled(_NAME, dims, input, channels_may_be_empty=True)
    elif min(*input.shape[2:], *sizes) <= 0:
        raise RuntimeError(
            f"{_NAME}(): Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape[2:])} output {list(sizes)}"
        )
    elif input.shape[1] == 0:
        raise RuntimeError(
            f"{_NAME}(): expected an input with channels, but got shape {list(input.shape)}"
        )


def _precision(input: jax.Array) -> type[np.float32 | np.float64]:
    return np.float64 if input.dtype == jnp.float64 else np.float32


def _tables(axes: tuple[Axis, ...], mode: str, *, antialias: bool) -> tuple[WindowTable, ...]:
    if mode == "area":
        sizes, outputs = [axis.inputs for axis in axes], [axis.outputs for axis in axes]
        return _pooling.adaptive(_NAME, sizes, outputs, none_allowed=False)
    if mode in ("nearest", "nearest-exact"):
        return tuple(axis.nearest(exact=mode == "nearest-exact") for axis in axes)
    if antialias:
        return tuple(axis.antialiased(cubic=mode == "bicubic") for axis in axes)
    return tuple(axis.cubic() if mode == "bicubic" else axis.linear() for axis in axes)


def _computed(
    input: jax.Array, mode: str, tables: tuple[WindowTable, ...], decision: Decision
) -> jax.Array:
    if mode == "area":
        return _pooling.mean(input, tables, [t.counts for t in tables], decision=decision)
    values = _pooling.lanes(input, len(tables))
    if input.dtype == jnp.uint8:
        out = _of_bytes(values, tables, decision)
    else:
        out = window_sum(values, tables, decision=decision)
    return out.reshape(*input.shape[:2], *out.shape[1:])


def _of_bytes(values: jax.Array, tables: tuple[WindowTable, ...], decision: Decision) -> jax.Array:
    """One dimension after another, the last one first, each rounded to bytes."""
    for dim, table in reversed(list(enumerate(tables))):
        alone = tuple(
            table if other == dim else WindowTable.of(n, np.arange(n)[:, None])
            for other, n in enumerate(values.shape[1:])
        )
        if table.weight is None:
            values = window_sum(values, alone, decision=decision)
        else:
            out = window_sum(values.astype(jnp.float32), alone, decision=decision)
            whole = jax.lax.round(out, jax.lax.RoundingMethod.AWAY_FROM_ZERO)
            values = jnp.clip(whole, 0, 255).astype(jnp.uint8)
    return values
