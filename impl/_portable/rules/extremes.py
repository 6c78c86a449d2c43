"""The greatest and the lowest elements, their indices, the order of floats, and their signs.

Devices and releases of XLA differ in which zero they take for the greater one, in which NaN they
return, and in the index of equal elements. Here 0 is greater than -0, and a NaN wins. Many elements
are compared as integers in the order of the floats (``impl._core.float_order``)::

    max(-0., 0.) = 0.    max(inf, nan) = nan    argmax([1., 3., 3.]) = 1
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.axes import spread
from impl._core.float_order import in_order, ordered_bits
from impl._core.lax_functions import filled
from impl._core.numerics import fence
from impl._jax import Primitive
from impl._native import windows
from impl._native.scope import or_native
from impl._portable import shared
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import Compute, rule
from impl._portable.rules.rounding import (
    converted,
    of_elements,
    operation,
    unrounded,
    working,
    zero_where,
)


def _as_bits(
    function: Compute, sign: int, value: jax.Array, *, flushes: bool, **params: Any
) -> jax.Array:
    """Returns what a function chooses of floats, as integers in their order.

    The function takes and returns integers, and takes the parameters. The sign is 1 for the
    greatest, -1 for the lowest. ``flushes`` is whether subnormals count as zero.
    """
    (wide,) = working((value,), flushes=flushes)
    chosen = in_order(function(ordered_bits(sign, wide), **params))
    return lax.convert_element_type(lax.bitcast_convert_type(chosen, wide.dtype), value.dtype)


def _ordered(function: Compute, a: jax.Array, b: jax.Array, **_: Any) -> Any:
    """Returns a comparison in one order of all floats, where -0 comes before 0, and NaN last.

    XLA compares two constants in another order, in which -0 equals 0.
    """
    return function(ordered_bits(1, a), ordered_bits(1, b))


def maximum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the greater element of two; 0 is greater than -0 on every device."""
    return _of_equal(lax.max, lax.bitwise_and, a, b)


def minimum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the lower element of two; -0 is lower than 0 on every device."""
    return _of_equal(lax.min, lax.bitwise_or, a, b)


def _of_equal(function: Compute, of_bits: Compute, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``function`` of two elements, or ``of_bits`` of the bits of 0 and -0."""
    word = jnp.dtype(f"int{8 * a.dtype.itemsize}")
    bits = of_bits(lax.bitcast_convert_type(a, word), lax.bitcast_convert_type(b, word))
    return lax.select(lax.eq(a, b), lax.bitcast_convert_type(bits, a.dtype), function(a, b))


def _clamp(*operands: jax.Array, flushes: bool, **_: Any) -> jax.Array:
    """Returns the second operand, limited by the first and the third one."""
    low, value, high = working(operands, flushes=flushes)
    low, high = (
        lax.broadcast_in_dim(bound, value.shape, ()) if bound.ndim < value.ndim else bound
        for bound in (low, high)
    )
    return lax.convert_element_type(minimum(maximum(low, value), high), operands[1].dtype)


def _sign(value: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns 1 or -1 with the sign of a number, and a zero or a NaN as it is.

    XLA takes 0 for the sign of -0 where it knows the operand, and -0 where it does not.
    """
    (wide,) = working((value,), flushes=flushes)
    is_zero = lax.eq(wide, lax.full_like(wide, 0))
    result = lax.select(is_zero, zero_where(is_zero, wide), lax.sign(wide))
    return lax.convert_element_type(result, value.dtype)


def _extreme(
    function: Compute, sign: int, value: jax.Array, *, axes: Any, flushes: bool, **_: Any
) -> jax.Array:
    """Returns the greatest or lowest elements along axes: ``lax.reduce_max`` or ``reduce_min``."""
    if not value.size:
        shape = [size for axis, size in enumerate(value.shape) if axis not in axes]
        return lax.full(shape, -sign * np.inf, value.dtype)
    return _as_bits(function, sign, value, flushes=flushes, axes=tuple(axes))


@or_native(windows.reduce_window)
def _extreme_of_windows(
    value: jax.Array,
    *,
    greatest: bool,
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    flushes: bool,
    **params: Any,
) -> jax.Array:
    """Returns the greatest or lowest elements of windows."""
    function, sign = (lax.max, 1) if greatest else (lax.min, -1)

    def choose(bits: jax.Array) -> jax.Array:
        limits, sides = jnp.iinfo(bits.dtype), padding
        least = bits.dtype.type(limits.min if greatest else limits.max)
        if any(step > 1 for step in base_dilation):
            bits, sides = spread(bits, least, padding, base_dilation), [(0, 0)] * bits.ndim
        extremes = lax.reduce_window(bits, least, function, padding=sides, **params)
        # A window that has only borders gives an infinity, not a NaN.
        infinity = lax.full(extremes.shape, -sign * np.inf, f"float{8 * bits.dtype.itemsize}")
        return function(extremes, in_order(lax.bitcast_convert_type(infinity, bits.dtype)))

    return _as_bits(choose, sign, value, flushes=flushes)


def _of_first(
    tangents: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    flushes: bool,
    **params: Any,
) -> jax.Array:
    """Returns the tangents of the greatest or lowest elements of windows: of equal ones, the first.

    XLA goes through a window in an order that depends on the sharding of the array. A window of
    infinities that it begins with has the tangent 0, as in JAX.
    """
    sign, precedes = (1, lax.gt) if select_prim is lax.ge_p else (-1, lax.lt)
    (wide,) = working((operand,), flushes=flushes)
    keys = ordered_bits(sign, lax.select(lax.eq(wide, filled(wide, 0)), filled(wide, 0), wide))
    positions = lax.reshape(lax.iota(np.int32, operand.size), operand.shape)
    infinity = np.array(np.inf, wide.dtype).view(keys.dtype)
    least = infinity if sign < 0 else ~infinity

    def better(x: Any, y: Any) -> tuple[jax.Array, ...]:
        is_first = lax.select(lax.eq(x[0], y[0]), lax.lt(x[1], y[1]), precedes(x[0], y[0]))
        return tuple(lax.select(is_first, *pair) for pair in zip(x, y, strict=True))

    zero = np.array(0, tangents.dtype)
    arrays = keys, positions, tangents
    found: jax.Array = lax.reduce_window(arrays, (least, np.int32(-1), zero), better, **params)[2]
    return found


def _of_devices(function: Compute) -> Compute:
    """Returns ``lax.pmax`` or ``lax.pmin`` with the parameters of its equation."""

    def run(bits: jax.Array, *, axes: Any, axis_index_groups: Any = None, **_: Any) -> jax.Array:
        extremes: jax.Array = function(bits, axes, axis_index_groups=axis_index_groups)
        return extremes

    return run


def _index(
    function: Compute, sign: int, value: jax.Array, *, axes: Any, index_dtype: Any, flushes: bool
) -> jax.Array:
    """Returns the index of the first greatest or lowest element along an axis. A NaN wins.

    JAX's own reduction returns the index of any NaN, in an order that depends on the device. The
    function is ``lax.reduce_max`` or ``lax.reduce_min``; see ``_as_bits``.
    """
    extremes = _extreme(function, sign, value, axes=axes, flushes=flushes)
    other_axes = [axis for axis in range(value.ndim) if axis not in axes]
    best = lax.broadcast_in_dim(extremes, value.shape, other_axes)
    (wide,) = working((value,), flushes=flushes)
    best = lax.convert_element_type(best, wide.dtype)
    is_best = lax.bitwise_or(lax.eq(wide, best), lax.ne(wide, wide))
    index = lax.broadcasted_iota(index_dtype, value.shape, axes[0])
    beyond = lax.full_like(index, jnp.iinfo(index_dtype).max)
    return lax.reduce_min(lax.select(is_best, index, beyond), tuple(axes))


def _greatest(value: jax.Array, *, k: int, axis: int, flushes: bool, **_: Any) -> list[jax.Array]:
    """Returns the ``k`` greatest elements along an axis, and their indices.

    JAX's own order of NaNs has their signs: infinity - infinity comes last on an x86 CPU, and first
    on a GPU or where XLA knows both.
    """
    is_float = jnp.issubdtype(value.dtype, jnp.floating)
    keys = value
    if is_float:
        (wide,) = working((value,), flushes=flushes)
        keys = ordered_bits(1, wide)
    # XLA for a CPU has a heap for float32, whose bits it compares as integers. Others it sorts.
    if keys.dtype == np.int32 and not flushes:
        numbers = fence(lax.bitcast_convert_type(in_order(keys), np.float32))
        found, index = lax.top_k(numbers, k, axis=axis)
        found = in_order(lax.bitcast_convert_type(found, np.int32))
    else:
        found, index = lax.top_k(keys, k, axis=axis)
    if is_float:
        found = lax.bitcast_convert_type(in_order(found), wide.dtype)
    return [converted(found, value.dtype), index]


of_elements("max", functools.partial(unrounded, maximum))
of_elements("min", functools.partial(unrounded, minimum))
of_elements("clamp", _clamp)
for _name, _order in (("max", 1), ("min", -1)):
    _reduce = getattr(lax, f"reduce_{_name}")
    operation(
        f"reduce_{_name}",
        functools.partial(_extreme, _reduce, _order),
        sharding=sharding_rules.reduce_extreme,
    )
    operation(
        f"arg{_name}",
        functools.partial(_index, _reduce, _order),
        sharding=sharding_rules.reduce_extreme,
    )
    operation(
        f"reduce_window_{_name}",
        functools.partial(_extreme_of_windows, greatest=_order > 0),
        keeps_whole=shared.windowed_axes,
        guards=shared.with_own_border,
    )
    operation(f"cum{_name}", functools.partial(_as_bits, getattr(lax, f"cum{_name}"), _order))
    operation(
        f"p{_name}",
        functools.partial(_as_bits, _of_devices(getattr(lax, f"p{_name}")), _order),
        names_mesh_axes=True,
        sharding=sharding_rules.replicate,
    )
of_elements("eq_to", functools.partial(_ordered, lax.eq))
of_elements("le_to", functools.partial(_ordered, lax.le))
of_elements("lt_to", functools.partial(_ordered, lax.lt))
of_elements("sign", _sign)
operation("top_k", _greatest, has_several_results=True)
operation("select_and_gather_add", _of_first, keeps_whole=shared.windowed_axes)
# Otherwise the algorithm of each platform would decide the order of equal elements.
rule("sort", by_jax="native", params=lambda _, params: {**params, "is_stable": True})
