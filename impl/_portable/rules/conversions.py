"""Conversions between dtypes, rounded once, and to fewer bits of the same dtype."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.elementary import complex_numbers
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import FIRST
from impl._portable.rules._floats import of_elements, working, working_dtype


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
