"""The operations of float64 on words, by the names of JAX's primitives.

An operation takes the values of the operands, the equation, and the parameters of the equation::

    OPERATIONS["mul"](a, b, equation=mul)               the words of a * b
    OPERATIONS["reduce_sum"](a, equation=..., axes=(0,))    the words of the sums

The interpreter itself moves words, and runs equations that hold jaxprs (``interpreter``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._soft_float64 import arithmetic, products, reductions, words

#: A value of an equation: an array, words, or the two words of complex numbers.
Value = Any
#: Takes the values of operands, the equation, and its parameters.
Operation = Callable[..., Any]

_DOUBLE, _COMPLEX, _WORD = np.dtype(np.float64), np.dtype(np.complex128), np.dtype(np.uint64)


class NotSupportedError(NotImplementedError):
    """An equation of float64 has no form in integers."""


def _elementwise(function: Callable[..., Value]) -> Operation:
    """Returns an operation on elements. An operand may be a scalar (a literal of any shape).

    A program has the equations of an operation once for each shape, as a function that it calls.
    """
    called = jax.jit(function)

    def run(*operands: Value, equation: Any, **_: Any) -> Value:
        shape = equation.outvars[0].aval.shape

        def spread(value: jax.Array) -> jax.Array:
            return value if np.shape(value) == shape else jnp.broadcast_to(value, shape)

        return called(*jax.tree.map(spread, operands))

    return run


def _converted(value: Value, *, new_dtype: Any, equation: Any, **_: Any) -> Value:
    old = equation.invars[0].aval.dtype
    if old == new_dtype:  # JAX converts a weak type to a strong one.
        return value
    if _COMPLEX in (old, new_dtype):
        raise NotSupportedError(f"a conversion of {old} to {new_dtype} has no form without float64")
    if new_dtype == _DOUBLE:
        return arithmetic.to_word(value)
    return arithmetic.from_word(value, new_dtype)


def _bits(value: Value, *, new_dtype: Any, **_: Any) -> Value:
    if new_dtype == _DOUBLE:
        new_dtype = _WORD
    return value if value.dtype == new_dtype else lax.bitcast_convert_type(value, new_dtype)


def _round(value: Value, *, rounding_method: Any, **_: Any) -> Value:
    if rounding_method != lax.RoundingMethod.TO_NEAREST_EVEN:
        raise NotSupportedError(f"round by {rounding_method} has no form without float64")
    return arithmetic.round_to_even(value)


def _power(value: Value, *, y: int, **_: Any) -> Value:
    if y != 2:
        raise NotSupportedError(f"integer_pow by {y} has no form without float64")
    return arithmetic.multiply(value, value)


def _complex(function: Callable[[jax.Array, jax.Array], jax.Array]) -> Callable[..., Value]:
    """Returns an operation on words, or on the two words of complex numbers."""

    def run(a: Value, b: Value) -> Value:
        if isinstance(a, tuple):
            return tuple(function(x, y) for x, y in zip(a, b, strict=True))
        return function(a, b)

    return run


def _sorted(
    *operands: Value, equation: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Value]:
    """Returns sorted arrays. Keys of words stand before the words that they order."""
    keys = [
        arithmetic.sortable(value) if atom.aval.dtype == _DOUBLE else value
        for value, atom in zip(operands[:num_keys], equation.invars[:num_keys], strict=True)
    ]
    found = lax.sort(
        [*keys, *operands], dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    return list(found[num_keys:])


def _barred(*operands: Value, **_: Any) -> list[Value]:
    """Returns values that pass one barrier."""
    flat, tree = jax.tree.flatten(list(operands))
    barred: list[Value] = jax.tree.unflatten(tree, lax.optimization_barrier(flat))
    return barred


def _iota(*, shape: Any, dimension: int, **_: Any) -> Value:
    return arithmetic.to_word(lax.broadcasted_iota(np.int64, shape, dimension))


OPERATIONS: Mapping[str, Operation] = {
    "abs": _elementwise(words.magnitude),
    "add": _elementwise(_complex(arithmetic.add)),
    "add_any": _elementwise(_complex(arithmetic.add)),
    "bitcast_convert_type": _bits,
    "ceil": _elementwise(arithmetic.ceil),
    "clamp": _elementwise(arithmetic.clamp),
    "complex": _elementwise(lambda real, imaginary: (real, imaginary)),
    "convert_element_type": _converted,
    "cumsum": reductions.cumsum,
    "div": _elementwise(arithmetic.divide),
    "dot_general": products.dot_general,
    "eq": _elementwise(arithmetic.compared(lax.eq)),
    "floor": _elementwise(arithmetic.floor),
    "ge": _elementwise(arithmetic.compared(lax.ge)),
    "gt": _elementwise(arithmetic.compared(lax.gt)),
    "iota": _iota,
    "imag": _elementwise(lambda value: value[1]),
    "integer_pow": _power,
    "is_finite": _elementwise(words.is_finite),
    "le": _elementwise(arithmetic.compared(lax.le)),
    "lt": _elementwise(arithmetic.compared(lax.lt)),
    "max": _elementwise(arithmetic.maximum),
    "min": _elementwise(arithmetic.minimum),
    "mul": _elementwise(arithmetic.multiply),
    "ne": _elementwise(arithmetic.compared(lax.ne)),
    "neg": _elementwise(arithmetic.negative),
    "optimization_barrier": _barred,
    "pmax": reductions.reduction(arithmetic.maximum, -np.inf),
    "pmin": reductions.reduction(arithmetic.minimum, np.inf),
    "psum": reductions.reduction(arithmetic.add, 0.0),
    "psum_invariant": reductions.reduction(arithmetic.add, 0.0),
    "real": _elementwise(lambda value: value[0]),
    "reduce_max": reductions.reduction(arithmetic.maximum, -np.inf),
    "reduce_min": reductions.reduction(arithmetic.minimum, np.inf),
    "reduce_sum": reductions.reduction(arithmetic.add, 0.0),
    "reduce_scatter": reductions.reduce_scatter,
    "round": _round,
    "scatter-add": reductions.scatter_add,
    "sign": _elementwise(arithmetic.sign),
    "sort": _sorted,
    "sqrt": _elementwise(arithmetic.root),
    "square": _elementwise(lambda value: arithmetic.multiply(value, value)),
    "sub": _elementwise(_complex(arithmetic.subtract)),
}
