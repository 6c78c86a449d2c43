"""Operations of JAX that round once, with the same bits on every device.

A CPU contracts a product and a sum, and takes subnormal floats for zero. A GPU does neither. XLA
adds two constants first. Every result is sealed, and devices that keep subnormals drop them here.
Floats of 16 bits are computed in float32 and rounded twice, in the same way everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic, elementary

#: A lowering: takes arrays, and ``flushes``, whether the device keeps subnormals, as keywords
#: beside the parameters of the equation.
Function = Callable[..., jax.Array]


def _working(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype in which operations on a dtype are computed."""
    return np.dtype(np.float32) if jnp.finfo(dtype).bits < 32 else np.dtype(dtype)


def _flushed(value: jax.Array) -> jax.Array:
    """Returns ``value`` with a zero of the same sign for each subnormal number."""
    return _zero_where(_is_below(value, float(jnp.finfo(value.dtype).tiny)), value)


def _is_below(value: jax.Array, bound: float) -> jax.Array:
    return lax.lt(lax.abs(value), lax.full_like(value, bound))


def _zero_where(chosen: jax.Array, value: jax.Array) -> jax.Array:
    """Returns ``value``, with a zero of the same sign where ``chosen`` is true."""
    unsigned = jnp.dtype(f"uint{8 * value.dtype.itemsize}")
    sign = lax.bitcast_convert_type(value, unsigned)
    mask = lax.full_like(sign, 1 << (8 * value.dtype.itemsize - 1))
    zero = lax.bitcast_convert_type(lax.bitwise_and(sign, mask), value.dtype)
    return lax.select(chosen, zero, value)


def _operands(operands: tuple[jax.Array, ...], *, flushes: bool) -> list[jax.Array]:
    wide = [lax.convert_element_type(each, _working(each.dtype)) for each in operands]
    return [_flushed(each) for each in wide] if flushes else wide


def rounded(function: Function, *operands: jax.Array, flushes: bool, **_: Any) -> jax.Array:
    """Returns one operation on floats of one dtype, which ``function`` seals."""
    result = function(*_operands(operands, flushes=flushes))
    if flushes:
        result = _flushed(result)
    if result.dtype == operands[0].dtype:
        return result
    return arithmetic.seal(lax.convert_element_type(result, operands[0].dtype))


def product(a: jax.Array, b: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``a * b``, rounded before anything else uses it.

    A CPU that flushes rounds to all bits, and then decides what is subnormal. Where subnormals are
    kept, they have fewer bits, so a product with a greater exponent decides.
    """
    result = rounded(arithmetic.product, a, b, flushes=flushes)
    if not flushes:
        return result
    left, right = _operands((a, b), flushes=True)
    limits = jnp.finfo(left.dtype)
    scale = 2.0 ** (-int(limits.minexp) // 2)
    scaled = arithmetic.product(arithmetic.product(left, lax.full_like(left, scale)), right)
    return _zero_where(_is_below(scaled, float(limits.tiny) * scale), result)


def square(value: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``value * value``, rounded before anything else uses it."""
    return product(value, value, flushes=flushes)


def simplest(name: str, shape: Sequence[Any], params: Mapping[str, Any]) -> str:
    """Returns the name of an operation that gives what an equation does with fewer steps.

    Optax writes a gradient to the power of 1, and the gradient of a bias is added once more along
    an axis of length 1.

    Args:
        name: The name of the primitive.
        shape: The shape of the first operand.
        params: The parameters of the equation.
    """
    if name == "integer_pow":
        return {1: "first_power", 2: "square"}.get(params["y"], name)
    if name == "reduce_sum" and all(shape[axis] == 1 for axis in params["axes"]):
        return "sum_of_one"
    return name


def sum_of_one(value: jax.Array, *, axes: Any, flushes: bool, **_: Any) -> jax.Array:
    """Returns the sums along axes of length 1, of which none is -0."""
    (wide,) = _operands((value,), flushes=flushes)
    zero = lax.full_like(wide, 0)
    result = lax.squeeze(lax.select(lax.eq(wide, zero), zero, wide), tuple(axes))
    return lax.convert_element_type(result, value.dtype)


def picked(function: Function, *operands: jax.Array, flushes: bool, **params: Any) -> jax.Array:
    """Returns an operation that rounds nothing."""
    result = function(*_operands(operands, flushes=flushes), **params)
    return lax.convert_element_type(result, operands[0].dtype)


def remainder(a: jax.Array, b: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns the remainder of ``a / b``; the function of a CPU returns subnormal ones too."""
    result = _flushed(lax.rem(*_operands((a, b), flushes=flushes)))
    return lax.convert_element_type(result, a.dtype)


def ordered(function: Function, a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns a comparison in one order of all floats, where -0 comes before 0, and NaN last.

    XLA compares constants as if they were in no such order.
    """
    return function(_ordered_bits(1, a), _ordered_bits(1, b))


def running_extreme(
    function: Function, sign: int, value: jax.Array, *, flushes: bool, **params: Any
) -> jax.Array:
    """Returns running extremes along an axis, as ``extreme`` finds those along whole axes.

    Args:
        function: ``lax.cummax`` or ``lax.cummin``.
        sign: 1 for the greatest, -1 for the lowest.
        value: Floats.
        flushes: Whether the device keeps subnormals, which are dropped.
        params: The axis and the direction.
    """
    (wide,) = _operands((value,), flushes=flushes)
    return _of_ordered_bits(function(_ordered_bits(sign, wide), **params), wide, value)


def extreme_of_windows(
    function: Function, sign: int, value: jax.Array, *, flushes: bool, **params: Any
) -> jax.Array:
    """Returns the greatest or lowest elements of windows, as ``extreme`` finds those along axes.

    Args:
        function: ``lax.max`` or ``lax.min``.
        sign: 1 for the greatest, -1 for the lowest.
        value: Floats.
        flushes: Whether the device keeps subnormals, which are dropped.
        params: The windows, as ``lax.reduce_window`` takes them.
    """
    (wide,) = _operands((value,), flushes=flushes)
    bits = _ordered_bits(sign, wide)
    limits = jnp.iinfo(bits.dtype)
    border = limits.min if sign > 0 else limits.max
    found = lax.reduce_window(bits, bits.dtype.type(border), function, **params)
    # A window of nothing but borders is infinite, and no NaN.
    infinity = lax.full(found.shape, -sign * np.inf, wide.dtype)
    found = function(found, _in_order(lax.bitcast_convert_type(infinity, bits.dtype)))
    return _of_ordered_bits(found, wide, value)


def maximum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the greater element of two; 0 is greater than -0 on every device."""
    return _of_equal(lax.max, lax.bitwise_and, a, b)


def minimum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the lower element of two; -0 is lower than 0 on every device."""
    return _of_equal(lax.min, lax.bitwise_or, a, b)


def _of_equal(function: Function, of_bits: Function, a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``function``; of equal elements, which differ in the sign of zero, that of bits."""
    word = jnp.dtype(f"int{8 * a.dtype.itemsize}")
    bits = of_bits(lax.bitcast_convert_type(a, word), lax.bitcast_convert_type(b, word))
    return lax.select(lax.eq(a, b), lax.bitcast_convert_type(bits, a.dtype), function(a, b))


def _clamp(low: jax.Array, value: jax.Array, high: jax.Array) -> jax.Array:
    low, high = (
        lax.broadcast_in_dim(bound, value.shape, ()) if bound.ndim < value.ndim else bound
        for bound in (low, high)
    )
    return minimum(maximum(low, value), high)


def clamp(*operands: jax.Array, flushes: bool, **_: Any) -> jax.Array:
    """Returns the elements that are nearest to those of the second operand between two others."""
    low, value, high = _operands(operands, flushes=flushes)
    return lax.convert_element_type(_clamp(low, value, high), operands[1].dtype)


def extreme(
    function: Function, sign: int, value: jax.Array, *, axes: Any, flushes: bool, **_: Any
) -> jax.Array:
    """Returns the greatest or lowest elements along axes, by integers in the order of the floats.

    0 is greater than -0. A NaN wins.

    Args:
        function: ``lax.reduce_max`` or ``lax.reduce_min``.
        sign: 1 for the greatest, -1 for the lowest.
        value: Floats.
        axes: The axes.
        flushes: Whether the device keeps subnormals, which are dropped.
    """
    (wide,) = _operands((value,), flushes=flushes)
    word = jnp.dtype(f"int{8 * wide.dtype.itemsize}")
    found = function(_ordered_bits(sign, wide), tuple(axes))
    if not value.size:
        found = _in_order(
            lax.bitcast_convert_type(lax.full(found.shape, -sign * np.inf, wide.dtype), word)
        )
    return _of_ordered_bits(found, wide, value)


def extreme_of_devices(
    function: Function, sign: int, value: jax.Array, *, flushes: bool, axes: Any, **params: Any
) -> jax.Array:
    """Returns the greatest or lowest elements over named axes, as ``extreme`` does over others.

    Args:
        function: ``lax.pmax`` or ``lax.pmin``.
        sign: 1 for the greatest, -1 for the lowest.
        value: Floats.
        flushes: Whether the device keeps subnormals, which are dropped.
        axes: The names.
        params: Further parameters of the equation.
    """
    (wide,) = _operands((value,), flushes=flushes)
    groups = params.get("axis_index_groups")
    found = _in_order(function(_ordered_bits(sign, wide), axes, axis_index_groups=groups))
    return lax.convert_element_type(lax.bitcast_convert_type(found, wide.dtype), value.dtype)


def _ordered_bits(sign: int, value: jax.Array) -> jax.Array:
    """Returns integers in the order of floats; a NaN is the greatest, or the lowest."""
    word = jnp.dtype(f"int{8 * value.dtype.itemsize}")
    limits = jnp.iinfo(word)
    bits = _in_order(lax.bitcast_convert_type(value, word))
    of_nan = lax.full_like(bits, limits.max if sign > 0 else limits.min)
    return lax.select(lax.ne(value, value), of_nan, bits)


def _of_ordered_bits(bits: jax.Array, wide: jax.Array, value: jax.Array) -> jax.Array:
    """Returns the floats that ``_ordered_bits`` made integers of.

    Args:
        bits: The integers.
        wide: The floats that were compared.
        value: An array of the dtype of the result.
    """
    found = lax.bitcast_convert_type(_in_order(bits), wide.dtype)
    return lax.convert_element_type(found, value.dtype)


def place(
    function: Function, sign: int, value: jax.Array, *, axes: Any, index_dtype: Any, flushes: bool
) -> jax.Array:
    """Returns the index of the first greatest or lowest element along an axis. A NaN wins.

    JAX's own reduction gives the index of any NaN, in an order that depends on the device.

    Args:
        function: ``lax.reduce_max`` or ``lax.reduce_min``.
        sign: 1 for the greatest, -1 for the lowest.
        value: Floats.
        axes: The axis.
        index_dtype: The dtype of the result.
        flushes: Whether the device keeps subnormals, which are dropped.
    """
    found = extreme(function, sign, value, axes=axes, flushes=flushes)
    kept = [axis for axis in range(value.ndim) if axis not in axes]
    best = lax.broadcast_in_dim(found, value.shape, kept)
    (wide,) = _operands((value,), flushes=flushes)
    best = lax.convert_element_type(best, wide.dtype)
    is_best = lax.bitwise_or(lax.eq(wide, best), lax.ne(wide, wide))
    index = lax.broadcasted_iota(index_dtype, value.shape, axes[0])
    beyond = lax.full_like(index, jnp.iinfo(index_dtype).max)
    return lax.reduce_min(lax.select(is_best, index, beyond), tuple(axes))


def _in_order(bits: jax.Array) -> jax.Array:
    """Maps the bits of floats to integers in the order of the floats; it is its own inverse."""
    last = 8 * bits.dtype.itemsize - 1
    negative = lax.shift_right_arithmetic(bits, lax.full_like(bits, last))
    return lax.bitwise_xor(
        bits, lax.bitwise_and(negative, lax.full_like(bits, jnp.iinfo(bits.dtype).max))
    )


def convert(value: jax.Array, *, new_dtype: Any, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``value`` in another dtype, rounded once if that is a float."""
    old, new = value.dtype, jnp.dtype(new_dtype)
    to_float, from_float = (jnp.issubdtype(dtype, jnp.floating) for dtype in (new, old))
    if from_float and flushes:
        value = lax.convert_element_type(_operands((value,), flushes=True)[0], old)
    if not to_float:
        return lax.convert_element_type(value, new)
    if from_float:
        if (
            jnp.finfo(old).nmant <= jnp.finfo(new).nmant
            and jnp.finfo(old).nexp <= jnp.finfo(new).nexp
        ):
            return lax.convert_element_type(value, new)
        wide = lax.convert_element_type(value, np.float64)
        if old == np.float32:
            return arithmetic.seal(lax.convert_element_type(value, new))
        return arithmetic.narrow(wide, new)
    if new.itemsize < 4 and old.itemsize <= 4:
        return arithmetic.narrow(lax.convert_element_type(value, np.float64), new)
    first = lax.convert_element_type(value, _working(new))
    return arithmetic.seal(lax.convert_element_type(arithmetic.seal(first), new))


def one_minus_square(value: jax.Array, **_: Any) -> jax.Array:
    """Returns 1 - x * x, rounded once; the product of two float32 is exact in float64."""
    wide = value if value.dtype == np.float64 else arithmetic.widen(value)
    result = lax.sub(lax.full_like(wide, 1), arithmetic.product(wide, wide))
    return arithmetic.narrow(result, value.dtype)


def quotient(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a / b``, rounded once.

    XLA may multiply by a reciprocal, which changes the last two bits of a float64. Of operands with
    24 bits, no quotient is nearer to the middle between two float32 than 2**-50 of itself.
    """
    if a.dtype == np.float64:
        return elementary.FUNCTIONS["div"](a, b)
    return arithmetic.narrow(lax.div(arithmetic.widen(a), arithmetic.widen(b)), a.dtype)


def root(value: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns the square root, rounded once; a GPU approximates its own of float32."""
    if flushes:
        return elementary.FUNCTIONS["sqrt"](value)
    return rounded(lambda wide: arithmetic.seal(lax.sqrt(wide)), value, flushes=False)


def reduce_precision(value: jax.Array, *, flushes: bool, **params: Any) -> jax.Array:
    """Returns ``value`` rounded to fewer bits."""
    (wide,) = _operands((value,), flushes=flushes) if flushes else (value,)
    result = arithmetic.seal(lax.reduce_precision(wide, **params))
    return lax.convert_element_type(result, value.dtype)


#: The operation of each primitive, by name.
OPERATIONS: Mapping[str, Function] = {
    "add": functools.partial(rounded, arithmetic.add),
    "add_any": functools.partial(rounded, arithmetic.add),
    "argmax": functools.partial(place, lax.reduce_max, 1),
    "argmin": functools.partial(place, lax.reduce_min, -1),
    "ceil": functools.partial(picked, lax.ceil),
    "clamp": clamp,
    "convert_element_type": convert,
    "cummax": functools.partial(running_extreme, lax.cummax, 1),
    "cummin": functools.partial(running_extreme, lax.cummin, -1),
    "div": quotient,
    "eq_to": functools.partial(ordered, lax.eq),
    "first_power": functools.partial(picked, lambda value, **_: value),
    "floor": functools.partial(picked, lax.floor),
    "le_to": functools.partial(ordered, lax.le),
    "lt_to": functools.partial(ordered, lax.lt),
    "max": functools.partial(picked, maximum),
    "min": functools.partial(picked, minimum),
    "mul": product,
    "one_minus_square": one_minus_square,
    "pmax": functools.partial(extreme_of_devices, lax.pmax, 1),
    "pmin": functools.partial(extreme_of_devices, lax.pmin, -1),
    "reduce_max": functools.partial(extreme, lax.reduce_max, 1),
    "reduce_min": functools.partial(extreme, lax.reduce_min, -1),
    "reduce_precision": reduce_precision,
    "reduce_window_max": functools.partial(extreme_of_windows, lax.max, 1),
    "reduce_window_min": functools.partial(extreme_of_windows, lax.min, -1),
    "rem": remainder,
    "round": functools.partial(picked, lax.round),
    "sqrt": root,
    "square": square,
    "sub": functools.partial(rounded, arithmetic.subtract),
    "sum_of_one": sum_of_one,
}
