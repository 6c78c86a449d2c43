"""Operations that round once, as IEEE 754 says: sums, products, quotients, roots, conversions.

On a CPU, XLA contracts a product and a sum to a fused multiply-add. On a GPU, it replaces a
quotient or a root by an approximation. Every result here is sealed (``arithmetic.seal``), so that
XLA rounds it before anything else uses it.

A CPU counts subnormal floats as zeros and a GPU computes with them, so functions flush them to zero
where the device does not. Floats of 16 bits are computed in float32, and so rounded twice, in the
same way on every device::

    bfloat16 1 + 2**-8      float32 1.00390625, and then bfloat16 1, the even neighbour
    float32 1e-30 * 1e-10   1e-40 is subnormal: 0 on every device

Elementary functions are in ``impl._exact.elementary``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic, elementary
from impl._exact.elementary import complex_numbers, roots_and_quotients
from impl._exact.elementary._pairs import two_product
from impl._exact.sums import reduction
from impl._native import functions as native
from impl._native import scope
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import ALL, FIRST, Compute, Rule, rule


def operation(name: str, compute: Compute, **fields: Any) -> None:
    """Registers an operation that takes ``flushes``: whether to flush subnormals to zero.

    Args:
        name: The name of the primitive.
        compute: The function of arrays.
        **fields: Further attributes of its record.
    """
    rule(name, compute=compute, takes=frozenset({"flushes"}), **fields)


def of_elements(name: str, compute: Compute, **fields: Any) -> None:
    """Registers an operation that computes each element alone, in the same way for all shapes."""
    operation(name, compute, is_elementwise=True, **fields)


@functools.cache
def working_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype in which operations on floats of a dtype are computed."""
    return np.dtype(np.float32) if jnp.finfo(dtype).bits < 32 else np.dtype(dtype)


def working(operands: Sequence[jax.Array], *, flushes: bool) -> list[jax.Array]:
    """Returns floats in the dtype in which operations on them are computed."""
    wide = [converted(each, working_dtype(each.dtype)) for each in operands]
    return [flushed(each) for each in wide] if flushes else wide


def converted(value: jax.Array, dtype: Any) -> jax.Array:
    """Returns a float in a dtype, which most often it has."""
    return value if value.dtype == dtype else lax.convert_element_type(value, dtype)


def flushed(value: jax.Array) -> jax.Array:
    """Returns ``value`` with a zero of the same sign for each subnormal number."""
    return zero_where(is_below(value, float(jnp.finfo(value.dtype).tiny)), value)


def is_below(value: jax.Array, bound: float) -> jax.Array:
    """Returns whether magnitudes are below a bound."""
    return lax.lt(lax.abs(value), lax.full_like(value, bound))


def zero_where(chosen: jax.Array, value: jax.Array) -> jax.Array:
    """Returns ``value``, with a zero of the same sign where ``chosen`` is true."""
    unsigned = jnp.dtype(f"uint{8 * value.dtype.itemsize}")
    sign = lax.bitcast_convert_type(value, unsigned)
    mask = lax.full_like(sign, 1 << (8 * value.dtype.itemsize - 1))
    zero = lax.bitcast_convert_type(lax.bitwise_and(sign, mask), value.dtype)
    return lax.select(chosen, zero, value)


def rounded(function: Compute, *operands: jax.Array, flushes: bool, **_: Any) -> jax.Array:
    """Returns one operation on floats of one dtype, which ``function`` seals."""
    result: jax.Array = function(*working(operands, flushes=flushes))
    if flushes:
        result = flushed(result)
    if result.dtype == operands[0].dtype:
        return result
    return arithmetic.seal(lax.convert_element_type(result, operands[0].dtype))


def unrounded(function: Compute, *operands: jax.Array, flushes: bool, **params: Any) -> jax.Array:
    """Returns an operation that rounds nothing."""
    result = function(*working(operands, flushes=flushes), **params)
    return converted(result, operands[0].dtype)


def product(a: jax.Array, b: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``a * b``, rounded before anything else uses it.

    A CPU rounds a product to 24 bits, whatever its exponent, and flushes it if it is subnormal
    then. Another device rounds a subnormal product to fewer bits. So that device computes the
    product again with a greater exponent, and flushes the results that a CPU would flush.
    """
    result = rounded(arithmetic.product, a, b, flushes=flushes)
    if not flushes:
        return result
    left, right = working((a, b), flushes=True)
    limits = jnp.finfo(left.dtype)
    scale = 2.0 ** (-int(limits.minexp) // 2)
    scaled = arithmetic.product(arithmetic.product(left, lax.full_like(left, scale)), right)
    return zero_where(is_below(scaled, float(limits.tiny) * scale), result)


def square(value: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``value * value``, rounded before anything else uses it."""
    return product(value, value, flushes=flushes)


def _remainder(a: jax.Array, b: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns the remainder of ``a / b``; the function of a CPU returns subnormal ones too."""
    result = flushed(lax.rem(*working((a, b), flushes=flushes)))
    return lax.convert_element_type(result, a.dtype)


def _one_minus_square(value: jax.Array, **_: Any) -> jax.Array:
    """Returns 1 - x * x, rounded once; the product of two float32 is exact in float64."""
    wide = value if value.dtype == np.float64 else arithmetic.widen(value)
    square, error = arithmetic.product(wide, wide), lax.full_like(wide, 0)
    if value.dtype == np.float64:
        square, error = two_product(wide, wide)
    result, rest = arithmetic.two_sum(lax.full_like(wide, 1), lax.neg(square))
    rest = arithmetic.finite_or_zero(arithmetic.add_to_odd(rest, lax.neg(error)))
    return arithmetic.narrow(lax.add(result, rest), value.dtype)


def _quotient(a: jax.Array, b: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``a / b``, rounded once."""
    if flushes or a.dtype.itemsize < 4:
        return roots_and_quotients.div(a, b)
    # A CPU divides as IEEE 754 says, but XLA multiplies by the reciprocal of a divisor with equal
    # elements. It does not see that they are equal here: one differs where ``a`` is a NaN.
    return arithmetic.seal(lax.div(a, lax.select(lax.ne(a, a), a, b)))


def _root(value: jax.Array, *, flushes: bool, **_: Any) -> jax.Array:
    """Returns the square root, rounded once; a GPU approximates its own of float32."""
    if flushes:
        return roots_and_quotients.sqrt(value)
    return rounded(lambda wide: arithmetic.seal(lax.sqrt(wide)), value, flushes=False)


def convert(value: jax.Array, *, new_dtype: Any, flushes: bool, **_: Any) -> jax.Array:
    """Returns ``value`` in another dtype, rounded once if that is a float."""
    old, new = value.dtype, jnp.dtype(new_dtype)
    to_float, from_float = (jnp.issubdtype(dtype, jnp.floating) for dtype in (new, old))
    if from_float and flushes:
        value = lax.convert_element_type(working((value,), flushes=True)[0], old)
    if not to_float:
        return lax.convert_element_type(value, new)
    if from_float:
        return _convert_float(value, new)
    if new.itemsize < 4 and old.itemsize <= 4:
        return arithmetic.narrow(lax.convert_element_type(value, np.float64), new)
    first = lax.convert_element_type(value, working_dtype(new))
    return arithmetic.seal(lax.convert_element_type(arithmetic.seal(first), new))


def _convert_float(value: jax.Array, new: np.dtype[Any]) -> jax.Array:
    old, limits, new_limits = value.dtype, jnp.finfo(value.dtype), jnp.finfo(new)
    if limits.nmant <= new_limits.nmant and limits.nexp <= new_limits.nexp:
        return lax.convert_element_type(value, new)
    if old == np.float32:
        return arithmetic.seal(lax.convert_element_type(value, new))
    return arithmetic.narrow(lax.convert_element_type(value, np.float64), new)


def _reduce_precision(value: jax.Array, *, flushes: bool, **params: Any) -> jax.Array:
    """Returns ``value`` rounded to fewer bits."""
    (wide,) = working((value,), flushes=flushes) if flushes else (value,)
    result = arithmetic.seal(lax.reduce_precision(wide, **params))
    return lax.convert_element_type(result, value.dtype)


_sum = functools.partial(rounded, arithmetic.add)
_difference = functools.partial(rounded, arithmetic.subtract)

_ADDITION = {"linear": ALL, "sharding": sharding_rules.add}
_ADDITION_OF_TWO = {**_ADDITION, "is_addition": True}

of_elements("add", _sum, of_complex=complex_numbers.add, **_ADDITION_OF_TWO)
of_elements("add_any", _sum, of_complex=complex_numbers.add, **_ADDITION_OF_TWO)
rule("add_parts", compute=reduction.add, of_complex=complex_numbers.add_terms, **_ADDITION)
of_elements("ceil", functools.partial(unrounded, lax.ceil))
of_elements(
    "div",
    _quotient,
    of_complex=complex_numbers.div,
    linear=FIRST,
    sharding=sharding_rules.divide,
)
of_elements("floor", functools.partial(unrounded, lax.floor))
of_elements(
    "mul",
    product,
    of_complex=complex_numbers.mul,
    linear="either",
    sharding=sharding_rules.multiply,
)
of_elements("one_minus_square", _one_minus_square)
of_elements("rem", _remainder)
of_elements("round", functools.partial(unrounded, lax.round))
of_elements("sqrt", _root)
of_elements("square", square, of_complex=complex_numbers.square)
of_elements("sub", _difference, of_complex=complex_numbers.sub, **_ADDITION_OF_TWO)
of_elements(
    "convert_element_type",
    convert,
    of_complex=complex_numbers.convert_element_type,
    linear=FIRST,
    sharding=sharding_rules.convert,
)
of_elements(
    "reduce_precision", _reduce_precision, linear=FIRST, sharding=sharding_rules.each_operand
)


_TAKES_FLUSHES = frozenset({"flushes"})
_FIRST_POWER = Rule(
    "first_power",
    compute=functools.partial(unrounded, lambda value, **_: value),
    takes=_TAKES_FLUSHES,
    is_elementwise=True,
)
_SQUARE = Rule("square", compute=square, takes=_TAKES_FLUSHES, is_elementwise=True)


#: The fields of the functions that take more than floats, or have simpler forms.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "exp": {"of_complex": complex_numbers.exp},
    "integer_pow": {
        "of_complex": complex_numbers.integer_pow,
        # Optax computes a power of the gradient whose exponent may be 1.
        "simpler": lambda _, params: {1: _FIRST_POWER, 2: _SQUARE}.get(params["y"]),
    },
    "log": {"of_complex": complex_numbers.log},
}
# Quotients and square roots have their records above.
for _name in elementary.FUNCTIONS.keys() - {"div", "sqrt"}:
    _called = scope.or_native(functools.partial(native.call, _name))
    _compute = _called(elementary.FUNCTIONS[_name])
    rule(_name, compute=_compute, is_elementwise=True, **_FIELDS.get(_name, {}))
rule("abs", of_complex=complex_numbers.absolute)
