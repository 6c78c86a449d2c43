"""Operations on complex numbers of two float32 or float64, with the same bits on every device.

The parts of a complex64 are computed in float64, where a product of two float32 is exact, and are
rounded once. The textbook formulas need no scaling, since the square of a float32 neither overflows
nor underflows in float64. Call the functions inside ``arithmetic.wide()``. For example::

    (1 + 2i) (3 + 4i)    the parts 1 * 3 - 2 * 4 and 1 * 4 + 2 * 3, each rounded once

The parts of a complex128 are computed as pairs (``_pairs``), and are rounded once. Quotients and
magnitudes scale their operands by powers of two. ``exp`` and ``log`` take the functions of float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import contexts, numerics
from impl._exact import arithmetic, elementary
from impl._exact.arithmetic import product, seal, two_sum, widen
from impl._exact.elementary._pairs import Pair, fast_two_sum, two_product
from impl._exact.elementary._words import constant, plus, times, with_sign
from impl._exact.elementary.exponentials import wide_exp, wide_log
from impl._exact.elementary.trigonometric import atan2, wide_cos, wide_sin
from impl._exact.products import convolution
from impl._exact.products import dot_general as products
from impl._exact.sums import reduction
from impl._native import functions as native
from impl._native.scope import or_native

#: The real and the imaginary part, float64.
Parts: TypeAlias = tuple[jax.Array, jax.Array]
#: A product of which the error, and all that it is computed of, are normal numbers or zeros.
_EXACT = 2.0**-900


def _parts(value: jax.Array) -> Parts:
    if not jnp.issubdtype(value.dtype, jnp.complexfloating):
        return _wide(value), lax.full(value.shape, 0, np.float64)
    return _wide(lax.real(value)), _wide(lax.imag(value))


def _wide(part: jax.Array) -> jax.Array:
    """Returns a float as float64, in which subnormals of its own dtype count as zeros."""
    if part.dtype != np.float64:
        return widen(part)
    return arithmetic.flushed_float64(part) if contexts.keeps_subnormals.value else part


def _real_of(value: jax.Array) -> np.dtype[Any]:
    """Returns the dtype of the parts."""
    return np.dtype(jnp.finfo(value.dtype).dtype)


def _rounded(parts: Parts, like: jax.Array) -> jax.Array:
    """Returns a complex number of the dtype of ``like``."""
    rounded = [arithmetic.narrow(part, _real_of(like)) for part in parts]
    return lax.complex(*(map(_wide, rounded) if _is_long(like) else rounded))


def _is_long(value: jax.Array) -> bool:
    return _real_of(value) == np.float64


def _product_pair(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a * b`` as a pair, whose second part is 0 if the product is small or not finite."""
    high, low = two_product(a, b)
    is_usual = lax.bitwise_and(
        lax.gt(lax.abs(high), constant(high, _EXACT)), lax.is_finite(lax.add(high, low))
    )
    return high, lax.select(is_usual, low, constant(low, 0))


def _corrected(high: jax.Array, low: jax.Array) -> jax.Array:
    """Returns ``high + low``; with the sign of a zero, if ``low`` is 0; ``low`` may be a NaN."""
    low = arithmetic.finite_or_zero(low)
    return lax.select(lax.eq(low, constant(low, 0)), high, seal(lax.add(high, low)))


def _dot_pair(a: Parts, b: Parts) -> Pair:
    """Returns ``a[0] * b[0] + a[1] * b[1]`` as a pair, which is not normalized."""
    products = [_product_pair(*each) for each in zip(a, b, strict=True)]
    (one, of_one), (two, of_two) = products
    _, low = two_sum(one, two)
    return arithmetic.add(one, two), lax.add(low, seal(lax.add(of_one, of_two)))


def _dot(a: Parts, b: Parts, *, is_long: bool) -> jax.Array:
    """Returns ``a[0] * b[0] + a[1] * b[1]``, rounded once."""
    if is_long:
        return _corrected(*_dot_pair(a, b))
    return arithmetic.add(product(a[0], b[0]), product(a[1], b[1]))


def _complex_product(a: Parts, b: Parts, *, is_long: bool = False) -> Parts:
    real = _dot(a, (b[0], lax.neg(b[1])), is_long=is_long)
    return real, _dot(a, (b[1], b[0]), is_long=is_long)


def _scaled(a: Parts) -> tuple[Parts, jax.Array]:
    """Returns parts by a power of two, the greater from 1/2 to 4, and the exponent that is lost."""
    exponent = arithmetic.exponent_above(lax.max(*map(lax.abs, a)))
    exponent = lax.min(exponent, lax.full_like(exponent, -arithmetic.MIN_EXPONENT))
    scale = arithmetic.power_of_two(lax.neg(exponent))
    real, imaginary = (arithmetic.flushed_float64(seal(lax.mul(part, scale))) for part in a)
    return (real, imaginary), exponent


def _quotient_of_pairs(a: Pair, b: Pair) -> jax.Array:
    """Returns ``a / b``, rounded once."""
    above, of_above = a
    below, of_below = fast_two_sum(b[0], arithmetic.finite_or_zero(b[1]))
    near = numerics.quotient(above, below)
    high, low = _product_pair(near, below)
    rest = lax.sub(of_above, lax.add(low, product(near, of_below)))
    rest = seal(lax.add(seal(lax.sub(above, high)), rest))
    return _corrected(near, numerics.quotient(rest, below))


def _long_quotient(a: Parts, b: Parts) -> Parts:
    """Returns ``_complex_quotient`` of parts of any exponents."""
    (a, of_a), (b, of_b) = _scaled(a), _scaled(b)
    below = _dot_pair(b, b)
    real, imaginary = _directed(b, below[0])
    exponent = lax.sub(of_a, of_b)

    def part(factor: Parts) -> jax.Array:
        return arithmetic.scaled(_quotient_of_pairs(_dot_pair(a, factor), below), exponent)

    return part((real, imaginary)), part((lax.neg(imaginary), real))


def _complex_quotient(a: Parts, b: Parts, *, is_long: bool) -> Parts:
    """Returns ``a / b``. A finite number by an infinite one is 0, and by 0 it is infinite."""
    if is_long:
        return _long_quotient(a, b)
    below = _dot(b, b, is_long=False)
    real, imaginary = _directed(b, below)
    above = _complex_product(a, (real, lax.neg(imaginary)))
    return numerics.quotient(above[0], below), numerics.quotient(above[1], below)


def _directed(b: Parts, below: jax.Array) -> Parts:
    """Returns a divisor with the square of its magnitude, or its direction if it has a limit."""
    one, zero, infinity = (constant(below, number) for number in (1, 0, np.inf))
    infinite = [lax.eq(lax.abs(part), infinity) for part in b]
    has_limit = lax.bitwise_or(lax.bitwise_or(*infinite), lax.eq(below, zero))
    # The directions of infinities count, and the finite part next to one does not (C, annex G).
    infinite[0] = lax.bitwise_or(infinite[0], lax.eq(below, zero))
    real, imaginary = (
        lax.select(has_limit, with_sign(lax.select(counts, one, zero), part), part)
        for counts, part in zip(infinite, b, strict=True)
    )
    return real, imaginary


def add(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a + b``."""
    first, second = _parts(a), _parts(b)
    parts = arithmetic.add(first[0], second[0]), arithmetic.add(first[1], second[1])
    return _rounded(parts, a)


def add_terms(*values: jax.Array, **_: Any) -> jax.Array:
    """Returns the exact sum of three complex numbers or more, each part rounded once."""
    return _of_each_part(reduction.add, *values)


def _of_each_part(function: Callable[..., jax.Array], *values: jax.Array) -> jax.Array:
    return lax.complex(*(function(*map(part, values)) for part in (lax.real, lax.imag)))


def sub(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a - b``."""
    return add(a, lax.neg(b))


def mul(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a * b``."""
    return _rounded(_complex_product(_parts(a), _parts(b), is_long=_is_long(a)), a)


def div(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a / b``."""
    return _rounded(_complex_quotient(_parts(a), _parts(b), is_long=_is_long(a)), a)


def square(a: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a * a``."""
    return mul(a, a)


def integer_pow(a: jax.Array, *, y: int, **_: Any) -> jax.Array:
    """Returns an integer power, by repeated products in float64."""
    factor, is_long = _parts(a), _is_long(a)
    one = constant(factor[0], 1), constant(factor[0], 0)
    result = one
    for _unused in range(abs(y)):
        result = _complex_product(result, factor, is_long=is_long)
    return _rounded(result if y >= 0 else _complex_quotient(one, result, is_long=is_long), a)


def absolute(a: jax.Array, **_: Any) -> jax.Array:
    """Returns magnitudes, floats. If a part is infinite, so is the magnitude."""
    real, imaginary = _parts(a)
    infinity = constant(real, np.inf)
    is_infinite = lax.bitwise_or(
        lax.eq(lax.abs(real), infinity), lax.eq(lax.abs(imaginary), infinity)
    )
    root = _long_root if _is_long(a) else _root
    return arithmetic.narrow(
        lax.select(is_infinite, infinity, root((real, imaginary))), _real_of(a)
    )


def _root(a: Parts) -> jax.Array:
    return seal(lax.sqrt(_dot(a, a, is_long=False)))


def _long_root(a: Parts) -> jax.Array:
    """Returns the magnitude: a root of a pair, which one step of Newton's method corrects."""
    a, exponent = _scaled(a)
    square, rest = _dot_pair(a, a)
    near = seal(lax.sqrt(square))
    high, low = _product_pair(near, near)
    rest = seal(lax.add(seal(lax.sub(square, high)), lax.sub(rest, low)))
    near = _corrected(near, numerics.quotient(rest, lax.add(near, near)))
    return product(near, arithmetic.power_of_two(exponent))


def _of_double(name: str, *operands: jax.Array) -> jax.Array:
    """Returns a function of float64."""
    call = or_native(functools.partial(native.call, name))
    result: jax.Array = call(elementary.FUNCTIONS[name])(*operands)
    return result


def exp(a: jax.Array, **_: Any) -> jax.Array:
    """Returns the exponential."""
    real, imaginary = _parts(a)
    if not _is_long(a):
        scale = seal(wide_exp(real))
        cosine, sine = wide_cos(imaginary), wide_sin(imaginary)
        return _rounded((product(scale, cosine), product(scale, sine)), a)
    # The exponential may be beyond the range of float64 where its product is not.
    is_great = lax.gt(lax.abs(real), constant(real, 700))
    scale = _of_double("exp", lax.select(is_great, times(real, 0.5), real))
    again = lax.select(is_great, scale, constant(scale, 1))
    angles = (_of_double(name, imaginary) for name in ("cos", "sin"))
    return lax.complex(*(product(product(scale, angle), again) for angle in angles))


def log(a: jax.Array, **_: Any) -> jax.Array:
    """Returns the principal logarithm. The logarithm of zero is -infinity."""
    if _is_long(a):
        angle = _of_double("atan2", lax.imag(a), lax.real(a))
        return lax.complex(_log_of_magnitude(a), angle)
    square = _dot(_parts(a), _parts(a), is_long=False)
    is_usual = lax.bitwise_and(
        lax.gt(square, constant(square, 0)), lax.lt(square, constant(square, np.inf))
    )
    real = seal(wide_log(lax.select(is_usual, square, constant(square, 1))))
    otherwise = lax.select(lax.eq(square, constant(square, 0)), constant(square, -np.inf), square)
    real = lax.select(is_usual, product(real, constant(real, 0.5)), otherwise)
    return lax.complex(arithmetic.narrow(real, np.float32), atan2(lax.imag(a), lax.real(a)))


def _log_of_magnitude(a: jax.Array) -> jax.Array:
    """Returns the logarithm of the magnitude of a complex128, near 1 by the square less 1."""
    square, rest = _dot_pair(_parts(a), _parts(a))
    is_near = lax.lt(lax.abs(plus(square, -1.0)), constant(square, 0.5))
    less = lax.select(is_near, lax.add(plus(square, -1.0), rest), constant(square, 0))
    far = _of_double("log", absolute(a))
    return lax.select(is_near, times(_of_double("log1p", less), 0.5), far)


def convert_element_type(a: jax.Array, *, new_dtype: Any, **_: Any) -> jax.Array:
    """Returns a real number as a complex one, or the real part of a complex one in its dtype."""
    if jnp.issubdtype(a.dtype, jnp.complexfloating):
        if not jnp.issubdtype(new_dtype, jnp.complexfloating):
            return lax.convert_element_type(lax.real(a), new_dtype)
        parts = _parts(a)
    else:
        is_float = a.dtype in (np.float32, np.float64)
        real = _wide(a) if is_float else lax.convert_element_type(a, np.float64)
        parts = real, constant(real, 0)
    return lax.complex(*(arithmetic.narrow(each, jnp.finfo(new_dtype).dtype) for each in parts))


def reduce_sum(a: jax.Array, *, axes: Sequence[int], **_: Any) -> jax.Array:
    """Returns sums over axes, of each part in the order ``nearest``."""
    return _of_each_part(functools.partial(reduction.reduce_sum, axes=tuple(axes)), a)


def scatter_add(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: lax.ScatterDimensionNumbers,
    mode: Any,
    **_: Any,
) -> jax.Array:
    """Returns the operand with updates added to it, each part in the order ``nearest``."""
    add = functools.partial(reduction.scatter_add, dimension_numbers=dimension_numbers, mode=mode)
    return _of_each_part(lambda own, terms: add(own, indices, terms), operand, updates)


def dot_general(
    a: jax.Array, b: jax.Array, *, dimension_numbers: Any, precision: Any, **_: Any
) -> jax.Array:
    """Returns a product of matrices, one of which may be real; each part is one sum, rounded once.

    A real part is a sum of twice as many terms: ``a.real * b.real`` and ``-a.imag * b.imag``.
    """
    (sum_of_a, sum_of_b), batch = dimension_numbers
    if not sum_of_a:
        sum_of_a, sum_of_b = (a.ndim,), (b.ndim,)
        a, b = lax.expand_dims(a, sum_of_a), lax.expand_dims(b, sum_of_b)
    dtype = jnp.result_type(a, b)
    a, b = (lax.convert_element_type(each, dtype) for each in (a, b))

    def part(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
        return products.dot_general(
            lax.concatenate(left, sum_of_a[0]),
            lax.concatenate(right, sum_of_b[0]),
            dimension_numbers=((sum_of_a, sum_of_b), batch),
            precision=precision,
            preferred_element_type=_real_of(a),
        )

    return _of_both_parts(part, a, b)


def _of_both_parts(
    part: Callable[[list[jax.Array], list[jax.Array]], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """Returns a bilinear function, whose ``part`` joins the terms of two products."""
    of_a, of_b = lax.imag(a), [lax.real(b), lax.imag(b)]
    real = part([lax.real(a), lax.neg(of_a)], of_b)
    return lax.complex(real, part([lax.real(a), of_a], of_b[::-1]))


def conv_general_dilated(
    a: jax.Array,
    b: jax.Array,
    *,
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int,
    out_sharding: Any = None,
    **params: Any,
) -> jax.Array:
    """Returns a convolution; each part is one sum, over twice as many channels."""
    del out_sharding  # Without a mesh, a type has no sharding.
    channels = dimension_numbers.lhs_spec[1]

    def grouped(image: jax.Array) -> jax.Array:
        size = image.shape[channels] // feature_group_count
        shape = *image.shape[:channels], feature_group_count, size, *image.shape[channels + 1 :]
        return lax.reshape(image, shape)

    def part(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
        shape = *a.shape[:channels], 2 * a.shape[channels], *a.shape[channels + 1 :]
        return convolution.conv_general_dilated(
            lax.reshape(lax.concatenate([*map(grouped, left)], channels + 1), shape),
            lax.concatenate(right, dimension_numbers.rhs_spec[1]),
            dimension_numbers=dimension_numbers,
            feature_group_count=feature_group_count,
            is_partitioned=True,  # For any device, on which XLA may partition it.
            **{**params, "preferred_element_type": _real_of(a)},
        )

    return _of_both_parts(part, a, b)
