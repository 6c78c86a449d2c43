"""The functions of ``impl._exact`` that JAX's primitives are lowered as under ``portable``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from impl._exact import convolution, elementary, products, sums


def function(name: str) -> Callable[..., jax.Array]:
    """Returns the function of a primitive, which takes the parameters of the equation.

    Args:
        name: The name of the primitive.
    """
    return _FUNCTIONS.get(name) or elementary.FUNCTIONS[name]


def _log2(value: jax.Array, **_: Any) -> jax.Array:
    """Returns the quotient of two logarithms, as JAX before 0.12 writes it in ``jnp.log2``."""
    log = elementary.FUNCTIONS["log"]
    return elementary.FUNCTIONS["div"](log(value), log(jax.lax.full_like(value, 2)))


def _reduce_sum(value: jax.Array, *, axes: Any, **_: Any) -> jax.Array:
    return sums.reduce_sum(value, tuple(axes), value.dtype)


def _reduce_prod(value: jax.Array, *, axes: Any, **_: Any) -> jax.Array:
    return sums.reduce_prod(value, tuple(axes))


def _scatter_add(
    *operands: jax.Array,
    subtract: bool = False,
    dimension_numbers: Any,
    mode: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    **_: Any,
) -> jax.Array:
    return sums.scatter_add(
        *operands,
        dimension_numbers=dimension_numbers,
        mode=mode,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        subtract=subtract,
    )


def _dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    **_: Any,
) -> jax.Array:
    return products.dot_general(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _psum(value: jax.Array, *, axes: Any, axis_index_groups: Any = None, **_: Any) -> jax.Array:
    numbers = tuple(axis for axis in axes if isinstance(axis, int))
    names = tuple(axis for axis in axes if not isinstance(axis, int))
    if numbers:
        value = sums.reduce_sum(value, numbers, value.dtype)
    return sums.psum(value, names, axis_index_groups) if names else value


_FUNCTIONS: Mapping[str, Callable[..., jax.Array]] = {
    "log2": _log2,
    "reduce_sum": _reduce_sum,
    "reduce_prod": _reduce_prod,
    "scatter-add": _scatter_add,
    "scatter-sub": functools.partial(_scatter_add, subtract=True),
    "dot_general": _dot_general,
    "conv_general_dilated": convolution.conv_general_dilated,
    "psum": _psum,
    "psum_invariant": _psum,
    "reduce_scatter": sums.reduce_scatter,
    "cumsum": sums.cumsum,
    "cumprod": sums.cumprod,
    "cumlogsumexp": sums.cumlogsumexp,
    "reduce_window_sum": sums.reduce_window_sum,
    "select_and_scatter_add": sums.select_and_scatter_add,
}
