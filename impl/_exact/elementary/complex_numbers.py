"""Operations on complex numbers of two float32, with the same bits on every device.

The parts of a result are computed in float64, where a product of two float32 is exact, and are
rounded once. The textbook formulas need no scaling, since the square of a float32 neither overflows
nor underflows in float64. Call the functions inside ``arithmetic.wide()``. For example::

    (1 + 2i) (3 + 4i)    the parts 1 * 3 - 2 * 4 and 1 * 4 + 2 * 3, each rounded once
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import numerics
from impl._exact import arithmetic
from impl._exact.arithmetic import product, seal, widen
from impl._exact.elementary._words import constant, with_sign
from impl._exact.elementary.exponentials import wide_exp, wide_log
from impl._exact.elementary.trigonometric import atan2, wide_cos, wide_sin
from impl._exact.products import convolution
from impl._exact.products import dot_general as products
from impl._exact.sums import reduction

#: The real and the imaginary part, float64.
Parts: TypeAlias = tuple[jax.Array, jax.Array]


def _parts(value: jax.Array) -> Parts:
    if not jnp.issubdtype(value.dtype, jnp.complexfloating):
        return widen(value), lax.full(value.shape, 0, np.float64)
    return widen(lax.real(value)), widen(lax.imag(value))


def _as_complex64(parts: Parts) -> jax.Array:
    return lax.complex(*(arithmetic.narrow(part, np.float32) for part in parts))


def _complex_product(a: Parts, b: Parts) -> Parts:
    real = arithmetic.subtract(product(a[0], b[0]), product(a[1], b[1]))
    return real, arithmetic.add(product(a[0], b[1]), product(a[1], b[0]))


def _square_of_magnitude(a: Parts) -> jax.Array:
    return seal(lax.add(product(a[0], a[0]), product(a[1], a[1])))


def _complex_quotient(a: Parts, b: Parts) -> Parts:
    """Returns ``a / b``. A finite number by an infinite one is 0, and by 0 it is infinite."""
    below = _square_of_magnitude(b)
    one, zero, infinity = (constant(below, number) for number in (1, 0, np.inf))
    infinite = [lax.eq(lax.abs(part), infinity) for part in b]
    has_limit = lax.bitwise_or(lax.bitwise_or(*infinite), lax.eq(below, zero))
    # The directions of infinities count, and the finite part next to one does not (C, annex G).
    infinite[0] = lax.bitwise_or(infinite[0], lax.eq(below, zero))
    real, imaginary = (
        lax.select(has_limit, with_sign(lax.select(counts, one, zero), part), part)
        for counts, part in zip(infinite, b, strict=True)
    )
    above = _complex_product(a, (real, lax.neg(imaginary)))
    return numerics.quotient(above[0], below), numerics.quotient(above[1], below)


def add(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a + b``."""
    first, second = _parts(a), _parts(b)
    return _as_complex64((arithmetic.add(first[0], second[0]), arithmetic.add(first[1], second[1])))


def add_terms(*values: jax.Array, **_: Any) -> jax.Array:
    """Returns the exact sum of three complex64 or more, each part rounded once."""
    return _of_each_part(reduction.add, *values)


def _of_each_part(function: Callable[..., jax.Array], *values: jax.Array) -> jax.Array:
    return lax.complex(*(function(*map(part, values)) for part in (lax.real, lax.imag)))


def sub(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a - b``."""
    return add(a, lax.neg(b))


def mul(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a * b``."""
    return _as_complex64(_complex_product(_parts(a), _parts(b)))


def div(a: jax.Array, b: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a / b``."""
    return _as_complex64(_complex_quotient(_parts(a), _parts(b)))


def square(a: jax.Array, **_: Any) -> jax.Array:
    """Returns ``a * a``."""
    return mul(a, a)


def integer_pow(a: jax.Array, *, y: int, **_: Any) -> jax.Array:
    """Returns an integer power, by repeated products in float64."""
    factor = _parts(a)
    one = constant(factor[0], 1), constant(factor[0], 0)
    result = one
    for _unused in range(abs(y)):
        result = _complex_product(result, factor)
    return _as_complex64(result if y >= 0 else _complex_quotient(one, result))


def absolute(a: jax.Array, **_: Any) -> jax.Array:
    """Returns magnitudes, float32. If a part is infinite, so is the magnitude."""
    real, imaginary = _parts(a)
    infinity = constant(real, np.inf)
    is_infinite = lax.bitwise_or(
        lax.eq(lax.abs(real), infinity), lax.eq(lax.abs(imaginary), infinity)
    )
    root = seal(lax.sqrt(_square_of_magnitude((real, imaginary))))
    return arithmetic.narrow(lax.select(is_infinite, infinity, root), np.float32)


def exp(a: jax.Array, **_: Any) -> jax.Array:
    """Returns the exponential."""
    real, imaginary = _parts(a)
    scale = seal(wide_exp(real))
    cosine, sine = wide_cos(imaginary), wide_sin(imaginary)
    return _as_complex64((product(scale, cosine), product(scale, sine)))


def log(a: jax.Array, **_: Any) -> jax.Array:
    """Returns the principal logarithm. The logarithm of zero is -infinity."""
    square = _square_of_magnitude(_parts(a))
    is_usual = lax.bitwise_and(
        lax.gt(square, constant(square, 0)), lax.lt(square, constant(square, np.inf))
    )
    real = seal(wide_log(lax.select(is_usual, square, constant(square, 1))))
    otherwise = lax.select(lax.eq(square, constant(square, 0)), constant(square, -np.inf), square)
    real = lax.select(is_usual, product(real, constant(real, 0.5)), otherwise)
    return lax.complex(arithmetic.narrow(real, np.float32), atan2(lax.imag(a), lax.real(a)))


def convert_element_type(a: jax.Array, *, new_dtype: Any, **_: Any) -> jax.Array:
    """Returns a real number as a complex one, or the real part of a complex one in its dtype."""
    if jnp.issubdtype(a.dtype, jnp.complexfloating):
        is_complex = jnp.issubdtype(new_dtype, jnp.complexfloating)
        return a if is_complex else lax.convert_element_type(lax.real(a), new_dtype)
    real = lax.convert_element_type(a, np.float64)
    real = widen(a) if a.dtype == np.float32 else real
    return _as_complex64((real, constant(real, 0)))


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
    a, b = (lax.convert_element_type(each, np.complex64) for each in (a, b))

    def part(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
        return products.dot_general(
            lax.concatenate(left, sum_of_a[0]),
            lax.concatenate(right, sum_of_b[0]),
            dimension_numbers=((sum_of_a, sum_of_b), batch),
            precision=precision,
            preferred_element_type=np.float32,
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
    """Returns a convolution of complex64; each part is one sum, over twice as many channels."""
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
            **{**params, "preferred_element_type": np.float32},
        )

    return _of_both_parts(part, a, b)
