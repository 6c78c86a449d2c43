"""Operations that the elementary functions share: constants, polynomials, signs, quotients, roots.

The prefix ``wide_``, here and in the other modules, marks a function from float64 to float64, whose
result the caller rounds. ``wide_quotient`` is the device's division of float64. Another function,
``impl._core.numerics.quotient``, gives a quotient its last bit.

``mended`` has the arguments whose exact value is so close to the middle of two float32 that float64
errs. ``python -m conformance.lab.elementary.exhaustive`` tries every float32 and finds them. They
are few for each function, so a comparison for each is cheaper than more digits for all. The table
is ``exceptions.toml``. For ``sin``::

    sin(0x1.33333p+13)                  -0x1.63f4bafffffffa5c...p-2
    rounded to float64                  -0x1.63f4bb0000000p-2, the middle of two float32
    that rounded to float32             -0x1.63f4bcp-2, the even one
    the nearest float32, in the table   -0x1.63f4bap-2
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.lax_functions import filled
from impl._exact.arithmetic import narrow, product, seal, widen

#: Adding it to an integer below 2**51 leaves that integer in the last bits of the sum.
_INTEGER_IN_LAST_BITS = 1.5 * 2.0**52
#: The dtypes that every elementary function takes.
NARROW = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(jnp.bfloat16))
_FILE = Path(__file__).with_name("coefficients.toml")
#: The coefficients of polynomials, the lowest first, and other constants, by their names.
data = SimpleNamespace(**tomllib.loads(_FILE.read_text(encoding="utf-8")))
#: A function from float64 to float64.
Wide = Callable[..., jax.Array]


def constant(like: jax.Array, value: float) -> jax.Array:
    """Returns an array of the shape and dtype of ``like``, full of ``value``."""
    return filled(like, value)


def plus(a: jax.Array, b: float) -> jax.Array:
    """Returns ``a + b`` for a number ``b``."""
    return lax.add(a, constant(a, b))


def times(a: jax.Array, b: float) -> jax.Array:
    """Returns ``a * b`` for a number ``b``, rounded before a sum uses it."""
    return product(a, constant(a, b))


def is_below(a: jax.Array, b: float) -> jax.Array:
    """Returns whether ``a < b`` for a number ``b``."""
    return lax.lt(a, constant(a, b))


def rounded_once(function: Wide, *operands: jax.Array) -> jax.Array:
    """Returns ``function`` of operands as float64, rounded once to the operands' dtype.

    Args:
        function: A function of float64.
        operands: float32, float16 or bfloat16, all of one dtype and shape.

    Raises:
        TypeError: The operands have another dtype.
    """
    dtype = require(NARROW, *operands)
    return narrow(function(*(widen(operand) for operand in operands)), dtype)


def require(allowed: Sequence[np.dtype], *operands: jax.Array) -> np.dtype:
    """Returns the dtype of all operands.

    Raises:
        TypeError: The dtype is not allowed, or the operands have several dtypes.
    """
    dtypes = {np.dtype(operand.dtype) for operand in operands}
    if len(dtypes) != 1 or not dtypes <= set(allowed):
        names = " and ".join(sorted(map(str, dtypes)))
        raise TypeError(f"got {names}; allowed is one of {', '.join(map(str, allowed))}")
    return dtypes.pop()


def polynomial(
    coefficients: Sequence[float], x: jax.Array, *, product: Wide = product
) -> jax.Array:
    """Returns a polynomial, by Estrin's scheme (Estrin 1960): (a + b x) + (c + d x) x**2.

    Args:
        coefficients: The lowest first.
        x: The argument, float64.
        product: The multiplication. With ``lax.mul``, which has no seals, XLA may contract. It is
            faster, and allowed where the exhaustive test proves that no result depends on it.
    """
    terms = [constant(x, value) for value in coefficients]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [lax.add(low, product(high, x)) for low, high in pairs] + odd
        x = product(x, x)
    return terms[0]


def integer_in_last_bits(value: jax.Array) -> jax.Array:
    """Returns int64 whose last 32 bits are the last 32 bits of a float64's integer value."""
    return lax.bitcast_convert_type(plus(value, _INTEGER_IN_LAST_BITS), np.int64)


def with_sign(magnitude: jax.Array, signed: jax.Array) -> jax.Array:
    """Returns ``magnitude``, which is not negative, with the sign of ``signed``: float64."""
    raw = lax.bitcast_convert_type(magnitude, np.int64)
    sign = lax.bitcast_convert_type(signed, np.int64)
    sign = lax.bitwise_and(sign, lax.full_like(sign, np.iinfo(np.int64).min))
    return lax.bitcast_convert_type(lax.bitwise_or(raw, sign), np.float64)


def has_sign(value: jax.Array) -> jax.Array:
    """Returns whether a float64 is negative or -0."""
    raw = lax.bitcast_convert_type(value, np.int64)
    return lax.lt(raw, lax.full_like(raw, 0))


def wide_quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a / b`` of float64, sealed, so that XLA does not narrow the division."""
    return seal(lax.div(a, b))


def wide_root(value: jax.Array) -> jax.Array:
    """Returns the square root of float64, sealed, so that XLA does not narrow the root."""
    return seal(lax.sqrt(value))


_EXCEPTIONS = Path(__file__).with_name("exceptions.toml")
#: For each function, the arguments and their correctly rounded results.
EXCEPTIONS: Mapping[str, Sequence[tuple[float, ...]]] = {
    name: tuple(tuple(map(float.fromhex, pair.split())) for pair in pairs)
    for name, pairs in tomllib.loads(_EXCEPTIONS.read_text(encoding="utf-8")).items()
}


def mended(name: str, result: jax.Array, x: jax.Array) -> jax.Array:
    """Returns the results of a primitive, replaced for its exceptional arguments ``x``.

    Other dtypes than float32 have no exceptions.
    """
    if result.dtype != np.float32:
        return result
    for argument, value in EXCEPTIONS.get(name, ()):
        is_exception = lax.eq(x, constant(x, argument))
        result = lax.select(is_exception, constant(result, value), result)
    return result
