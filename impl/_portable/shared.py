"""Arrays that several devices share, where XLA would change an element on its way.

XLA's partitioner lets a device read elements of another one by a sum over devices: each device adds
its elements, or zeros for those that it lacks. -0.0 + 0.0 is 0.0, so a float loses its sign. XLA
does so where half of the devices or more have nothing of an axis, and for elements whose indices
only the running program knows. ``windowed_axes`` and ``axes_of_steps`` are about faults that
change values of any dtype.

``sealed`` is for operands that enter a portable scope of a program without the guarantee. The
guarantee rounds each result before anything else uses it. Outside of the scope, JAX's own lowering
computes: XLA would contract a product from there and a sum in the scope.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import mlir

from impl import _jax
from impl._core import partitioning
from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._jax import lowering, shardings, tags


def is_shared(context: Any, *, of_integers: bool = False) -> bool:
    """Returns whether several devices may share the floats of an equation's first operand.

    ``of_integers`` is whether integers and truth values count too.
    """
    dtype = context.avals_in[0].dtype
    if jnp.issubdtype(dtype, jnp.inexact):
        counts = jnp.finfo(dtype).bits >= partitioning.NARROWEST
    else:
        counts = of_integers and (jnp.issubdtype(dtype, jnp.integer) or dtype == jnp.bool_)
    return counts and partitioning.is_partitioned(context)


def devices_of(context: Any) -> float:
    """Returns the number of devices of a program; any number may run an exported program."""
    return math.inf if _jax.exports(context) else shardings.devices_of(context)


def short_axes(context: Any, _: Mapping[str, Any], aval: Any) -> list[int]:
    """Returns the axes of an operand or a result that are longer in another operand or result.

    XLA may partition the short axis as it does the longer one. Half of the devices, or more, would
    then have nothing of it.
    """
    if not is_shared(context):
        return []
    devices = devices_of(context)
    return [
        axis
        for axis, lengths in enumerate(_lengths(context, aval))
        if shardings.sends_zeros(aval.shape[axis], devices)
        and len(set(lengths)) > 1
        and not _is_greatest(aval.shape[axis], lengths)
    ]


def windowed_axes(context: Any, _: Mapping[str, Any], aval: Any) -> list[int]:
    """Returns the axes along which an operation of windows has few elements, or few windows.

    If half of the devices, or more, would have no window, XLA gives wrong values of any dtype where
    a device needs elements of two others: 4 elements on 4 devices, one before them, and a window of
    2 elements with stride 4.
    """
    if not is_shared(context, of_integers=True):
        return []
    devices = devices_of(context)
    return [
        axis
        for axis, lengths in enumerate(_lengths(context, aval))
        if len(set(lengths)) > 1 and any(shardings.sends_zeros(each, devices) for each in lengths)
    ]


def _is_greatest(length: Any, lengths: Sequence[Any]) -> bool:
    """Returns whether a length is the greatest one; of symbolic sizes, nothing is known."""
    are_known = all(isinstance(each, int) for each in lengths)
    return are_known and length == max(lengths)


def _lengths(context: Any, aval: Any) -> list[tuple[Any, ...]]:
    """Returns the lengths of each axis in the operands and results of the rank of ``aval``."""
    shapes = [each.shape for each in (*context.avals_in, *context.avals_out)]
    return [*zip(*(shape for shape in shapes if len(shape) == aval.ndim), strict=True)]


def with_own_border(
    value: jax.Array, *others: jax.Array, is_partitioned: bool, **_: Any
) -> list[jax.Array]:
    """Returns the operands of a padding, of which the array has no other padding."""
    return [fence(value) if is_partitioned else value, *others]


def of_no_slice(
    value: jax.Array, indices: jax.Array, *others: jax.Array, **_: Any
) -> list[jax.Array]:
    """Returns the operands of a scatter, whose array is no slice if there is one window.

    XLA reads the window by another slice, and stores it again where the index is out of range.
    """
    return [fence(value) if indices.size == indices.shape[-1] else value, indices, *others]


def axes_of_rounds(context: Any, params: Mapping[str, Any], aval: Any) -> list[int]:
    """Returns the axes of running sums, and of products that are computed in rounds.

    Along a partitioned axis, XLA adds all terms before an element anew for each element: an axis of
    four times the length takes sixteen times as long. It exchanges elements in each round: a
    running product of 8 x 1,024 elements on 8 devices had 192 exchanges, and compiled for 12 s.
    """
    is_reduced = aval.ndim < context.avals_in[0].ndim
    return [] if is_reduced else [*params.get("axes", (params.get("axis"),))]


def axes_of_steps(context: Any, params: Mapping[str, Any], aval: Any) -> Sequence[int]:
    """Returns the axes that the steps of a decomposition or of a Fourier transform go through.

    XLA may compute other values where devices share them: it did so over three axes of a mesh.
    """
    count = len(params["fft_lengths"]) if "fft_lengths" in params else 2
    return range(context.avals_in[0].ndim - count, aval.ndim)


def sealed(context: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the operands of an equation, whose floats are sealed if it is in a scope."""
    if tags.current() is None:
        return [*operands]
    return [
        _sealed(context, operand, aval) if _is_float(aval) else operand
        for operand, aval in zip(operands, context.avals_in, strict=True)
    ]


def _is_float(aval: Any) -> bool:
    return isinstance(aval, jax.core.ShapedArray) and jnp.issubdtype(aval.dtype, jnp.inexact)


def _sealed(context: Any, operand: Any, aval: Any) -> Any:
    with arithmetic.wide(), shardings.no_mesh():
        one = lowering.natively(context).replace(avals_in=[aval], avals_out=[aval])
        rule = mlir.lower_fun(_seal, multiple_results=False)
        (result,) = rule(shardings.without_shardings(one), operand)
    return result


def _seal(value: jax.Array) -> jax.Array:
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return lax.complex(*map(arithmetic.seal, (lax.real(value), lax.imag(value))))
    return arithmetic.seal(value)
