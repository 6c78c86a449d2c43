"""pow, integer_pow and cbrt.

x**y is exp(y * log(x)), computed as pairs of float64 (``_pairs``) with an error of less than 2**-66
of itself, and then rounded once. The result is correctly rounded unless x**y is so close to the
middle of two floats, as one in 2**41 random powers is. A power that is the middle itself has at
most 25 bits, so a result that is nearly a number of 25 bits becomes that number::

    4097**2          pair 16785409 and -5.4e-20, in the middle of 16785408 and 16785410
    as 25 bits       16785409 and 0, which rounds to the even 16785408

An integer power multiplies its base by itself. A cube root is an approximation of 17 bits, whose
cube is exact, and a series of the rest::

    cbrt(2)          approximation 1.2599182, cube 1.9999865, root 1.2599182 + 0.0000028
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact.arithmetic import (
    narrow,
    nearest_integer,
    power_of_two,
    product,
    seal,
    widen,
)
from impl._exact.elementary._pairs import (
    Pair,
    factor_to_one,
    fast_two_sum,
    log_of_ratio,
    powers,
    rounded_to_odd,
    short,
    short_quotient,
    times_pair,
    two_product,
)
from impl._exact.elementary._words import (
    NARROW,
    constant,
    data,
    has_sign,
    integer_in_last_bits,
    is_below,
    plus,
    polynomial,
    require,
    rounded_once,
    times,
    wide_quotient,
    with_sign,
)
from impl._exact.elementary.exponentials import parts

_Factor = TypeVar("_Factor")
_Times: TypeAlias = Callable[[_Factor, _Factor], _Factor]
#: The number of bits of the significand of a float32, and one more for the middle of two float32.
_SHORT_BITS = 25
#: The distance to a number of 25 bits below which a power counts as that number. The significand
#: is about 1, and its error at most 2**-66.
_NEARLY = 2.0**-60
#: A logarithm of a power beyond which that is zero or infinity.
_LIMIT = 150.0
#: The bits of a cube root whose cube is exact in float64.
_ROOT_BITS = 17
_ROOTS_OF_TWO = (2 ** (-1 / 3), 1.0, 2 ** (1 / 3))
#: The coefficients of ((1 + x)**(1/3) - 1) / x.
_ROOT_SERIES = (1 / 3, -1 / 9, 5 / 81, -10 / 243)
#: A number far beyond the range of float32. A float64 holds its square.
_FAR = 2.0**300
#: The greatest exponent up to which squaring in float64 is accurate enough. The first wrong power
#: is the 34th, of one significand.
_SQUARED = 33


def pow(x: jax.Array, y: jax.Array, **_: object) -> jax.Array:
    """Returns ``x`` to the power of ``y``, with the special values of IEEE 754.

    The result is the power, rounded once. That is not proved for powers within 2**-66 of themselves
    of the middle of two floats, unless they are the middle itself.

    Args:
        x: Any shape; float32, float16 or bfloat16.
        y: The same shape; the same dtype, or integers.

    Raises:
        TypeError: Another dtype.
    """
    if jnp.issubdtype(y.dtype, jnp.integer):
        dtype = require(NARROW, x)
        is_odd = lax.ne(lax.bitwise_and(y, lax.full_like(y, 1)), lax.full_like(y, 0))
        exponent = lax.convert_element_type(y, np.float64)
        whole = lax.full_like(is_odd, True)
        return narrow(_power(widen(x), exponent, whole, is_odd), dtype)
    return rounded_once(lambda x, y: _power(x, y, *parity(y)), x, y)


def parity(y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns whether a float is an integer, or infinite, and whether it is odd."""
    whole = lax.eq(nearest_integer(y), y)
    half = lax.mul(y, constant(y, 0.5))
    return whole, lax.bitwise_and(whole, lax.ne(nearest_integer(half), half))


def _power(x: jax.Array, y: jax.Array, whole: jax.Array, is_odd: jax.Array) -> jax.Array:
    """Returns x**y as a float64 that rounds to 24 bits or fewer as x**y does."""
    return finished_power(x, y, whole, is_odd, _usual_power(usual_base(x), y))


def _is_usual(x: jax.Array) -> jax.Array:
    magnitude = lax.abs(x)
    return lax.bitwise_and(lax.gt(magnitude, constant(x, 0)), is_below(magnitude, np.inf))


def usual_base(x: jax.Array) -> jax.Array:
    """Returns the magnitude of x, or 1 if x is 0, infinite or NaN."""
    return lax.select(_is_usual(x), lax.abs(x), constant(x, 1))


def finished_power(
    x: jax.Array, y: jax.Array, whole: jax.Array, is_odd: jax.Array, result: jax.Array
) -> jax.Array:
    """Returns x**y, of which ``result`` is the magnitude if x is finite and not 0.

    ``whole`` is whether the exponent is an integer, or infinite, and ``is_odd`` whether it is odd.
    """
    zero, one, infinity = constant(x, 0), constant(x, 1), constant(x, np.inf)
    magnitude, is_usual = lax.abs(x), _is_usual(x)
    # A power of zero or infinity is zero or infinity, by the signs of log(x) and y.
    grows = lax.eq(lax.gt(magnitude, one), lax.gt(y, zero))
    result = lax.select(is_usual, result, lax.select(grows, infinity, zero))
    is_negative = has_sign(x)
    result = lax.select(lax.bitwise_and(is_negative, is_odd), lax.neg(result), result)
    has_no_value = lax.bitwise_and(lax.lt(x, zero), lax.bitwise_not(whole))
    has_no_value = lax.bitwise_and(has_no_value, is_usual)
    is_nan = lax.bitwise_or(lax.ne(x, x), lax.ne(y, y))
    result = lax.select(lax.bitwise_or(has_no_value, is_nan), constant(x, np.nan), result)
    return lax.select(lax.bitwise_or(lax.eq(x, one), lax.eq(y, zero)), one, result)


def _usual_power(x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns x**y for a positive, finite x: exp(y * log(x)), computed as pairs."""
    k, m = parts(x)
    factor, of_factor = factor_to_one(m)
    # The product has 30 bits.
    f = plus(product(factor, m), -1.0)
    ratio = fast_two_sum(*short_quotient(f, plus(f, 2.0)))
    logarithm = log_of_ratio(ratio, lax.convert_element_type(k, np.float64), of_factor, 1)
    # A product of infinity and log(1) = 0 would be NaN.
    bounded = lax.clamp(np.float64(-1e30), y, np.float64(1e30))
    high, low = two_product(logarithm[0], bounded)
    high, low = fast_two_sum(high, lax.add(low, product(logarithm[1], bounded)))
    limit = constant(x, _LIMIT)
    low = lax.select(lax.lt(lax.abs(high), limit), low, constant(low, 0))
    found = powers((lax.clamp(np.float64(-_LIMIT), high, np.float64(_LIMIT)), low), False)
    # Only multiples of 1/64 have exact powers of 25 bits: of a base of 24 bits that is a power of
    # two, or of odd numbers up to 15.
    scaled = lax.mul(y, constant(y, 64.0))
    may_be_exact = lax.eq(nearest_integer(scaled), scaled)
    result = rounded_to_odd(_with_exact_value(fast_two_sum(*found.sum()), may_be_exact))
    return lax.mul(result, power_of_two(integer_in_last_bits(found.n)))


def _with_exact_value(power: Pair, may_be_exact: jax.Array) -> Pair:
    """Returns a power, or the number of 25 bits that it is nearly equal to."""
    nearest = short(power[0], _SHORT_BITS)
    rest = lax.add(lax.sub(power[0], nearest), power[1])
    is_exact = is_below(lax.abs(rest), _NEARLY)
    is_exact = lax.bitwise_and(is_exact, may_be_exact)
    low = lax.select(is_exact, constant(rest, 0), power[1])
    return lax.select(is_exact, nearest, power[0]), low


def integer_pow(x: jax.Array, *, y: int, **_: object) -> jax.Array:
    """Returns ``x`` to the power of an integer.

    The power is computed by squaring: of float64 for exponents up to ``_SQUARED``, and of pairs for
    greater ones. A power of two in ``x`` only scales the result, so a trial of 2**23 significands
    proves that an exponent is correctly rounded. The exhaustive test tries -64 to 64. Beyond, the
    power has a relative error of less than ``abs(y) * 2**-98`` before it is rounded once.

    Args:
        x: Any shape; float32, float16 or bfloat16.
        y: The exponent.

    Raises:
        TypeError: Another dtype.
    """
    power = _plain_power if abs(y) <= _SQUARED else _power_of_pairs
    return rounded_once(lambda wide: power(wide, y), x)


def _plain_power(x: jax.Array, y: int) -> jax.Array:
    """Returns a power of float64, each of whose products is rounded."""
    if y == 0:
        return constant(x, 1)
    result = by_squaring(x, abs(y), product)
    return seal(result) if y > 0 else wide_quotient(constant(x, 1), result)


def _power_of_pairs(x: jax.Array, y: int) -> jax.Array:
    """Returns a power of float64, rounded to odd. The exponent is not 0."""
    power = by_squaring((x, constant(x, 0)), abs(y), times_pair)
    result = rounded_to_odd(power if y > 0 else _inverse(power))
    # Far beyond the range of float32, parts of a pair overflow, and become NaN.
    plain = _plain_power(x, y)
    is_usual = lax.gt(lax.abs(plain), constant(x, 1 / _FAR))
    is_usual = lax.bitwise_and(is_usual, is_below(lax.abs(plain), _FAR))
    return lax.select(is_usual, result, plain)


def by_squaring(factor: _Factor, exponent: int, times: _Times[_Factor]) -> _Factor:
    """Returns a factor to a power of at least 1."""
    while not exponent & 1:
        factor, exponent = times(factor, factor), exponent >> 1
    result = factor
    while exponent := exponent >> 1:
        factor = times(factor, factor)
        if exponent & 1:
            result = times(result, factor)
    return result


def _inverse(x: Pair) -> Pair:
    """Returns 1 / x."""
    high = wide_quotient(constant(x[0], 1), x[0])
    above, below = two_product(high, x[0])
    rest = lax.sub(lax.sub(constant(high, 1), above), below)
    rest = lax.sub(rest, product(high, x[1]))
    return fast_two_sum(high, wide_quotient(rest, x[0]))


def wide_cbrt(x: jax.Array) -> jax.Array:
    """Returns the cube root.

    A polynomial gives a root of 17 bits, whose cube is exact in float64. A series of the difference
    to that cube gives the rest, with about 2**-68 of the root as its error.
    """
    near, more, third, _ = near_root(x, wide_quotient)
    root = lax.mul(
        rounded_to_odd(fast_two_sum(near, more)), power_of_two(integer_in_last_bits(third))
    )
    return finished_root(x, root)


def finished_root(x: jax.Array, root: jax.Array) -> jax.Array:
    """Returns the cube root of x, where ``root`` is the root of a usual magnitude."""
    return with_sign(lax.select(_is_usual(x), root, lax.abs(x)), x)


def near_root(x: jax.Array, quotient: _Times[jax.Array]) -> tuple[jax.Array, ...]:
    """Returns a, b, n and m: ``usual_base(x)`` is m * 8**n, and its cube root (a + b) * 2**n.

    a has 17 bits.
    """
    k, m = parts(usual_base(x))
    exponent = lax.convert_element_type(k, np.float64)
    third = nearest_integer(times(exponent, 1 / 3))
    rest = lax.sub(exponent, times(third, 3.0))
    near = product(polynomial(data.CBRT, plus(m, -1.0)), _by_sign(rest, _ROOTS_OF_TWO))
    near = short(near, _ROOT_BITS)
    cube = product(product(near, near), near)
    m = product(m, _by_sign(rest, (0.5, 1.0, 2.0)))
    beside = quotient(lax.sub(m, cube), cube)
    return near, product(product(near, beside), polynomial(_ROOT_SERIES, beside)), third, m


def _by_sign(value: jax.Array, numbers: tuple[float, float, float]) -> jax.Array:
    """Returns one of three numbers: for negative values, for zeros, and for positive ones."""
    negative, zero, positive = (constant(value, number) for number in numbers)
    result = lax.select(is_below(value, 0), negative, zero)
    return lax.select(lax.gt(value, constant(value, 0)), positive, result)
