"""Rows of an embedding table: the parts that ``embedding`` and ``embedding_bag`` share.

Rows are read with their norm bounded, and the gradient of the table adds up the cotangents of all
reads of a row. The sum is a scatter, the transpose of the gather that reads the rows. A bounded
norm is not differentiated, as in PyTorch::

    table               [3., 4.]    [1., 0.]   [0., 2.]
    index               0, 2, 0
    read, max_norm=1    [0.6, 0.8]  [0., 1.]   [0.6, 0.8]
    cotangents          [1., 1.]    [2., 2.]   [4., 4.]
    gradient            [5., 5.]    [0., 0.]   [2., 2.]       row 0 has 1 + 4
    ... divided         [2.5, 2.5]  [0., 0.]   [2., 2.]       by ``frequencies``, 2, 1 and 1
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl._core import arguments, number_arguments
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence
from impl._mode.decide import Decision
from impl._mode.sums import sum_dtype
from impl.ops._indexing import accumulate, gather

#: Values of ``norm_type`` for which a norm needs no powers but squares.
_WITHOUT_POWERS = (0.0, 1.0, 2.0, math.inf, -math.inf)
#: PyTorch adds this to a norm before it divides by it.
_EPSILON = 1e-7


def facts(
    function: str, input: jax.Array, weight: jax.Array, max_norm: Any, norm_type: Any
) -> dict[str, spec.FactValue]:
    """Returns the facts of a lookup, after it has checked ``max_norm`` and ``norm_type``.

    Raises:
        RuntimeError: ``max_norm`` is given, and ``weight`` has an integer dtype.
        TypeError: ``max_norm`` or ``norm_type`` is not a real number.
    """
    norm_order = number_arguments.real(function, "norm_type", norm_type)
    if max_norm is not None:
        number_arguments.number(function, "max_norm", max_norm)
        if jnp.iscomplexobj(max_norm):
            raise TypeError(f"{function}(): argument 'max_norm' must be float, not complex")
        if not jnp.issubdtype(weight.dtype, jnp.inexact):
            raise RuntimeError(
                f"{function}(): argument 'max_norm' needs a weight of floats or complex numbers, "
                f"but got {weight.dtype}"
            )
    return {
        "dtype": arguments.dtype_kind(weight.dtype),
        "input_ndim": input.ndim,
        "max_norm": max_norm is not None,
        "power_norm": norm_order not in _WITHOUT_POWERS,
    }


def padding_row(
    function: str, padding_idx: Any, rows: int, error: type[Exception], *, empty: bool = False
) -> int | None:
    """Returns the row that ``padding_idx`` names, counted from the front; None for no row.

    Args:
        function: Name of the op.
        padding_idx: An int, or None.
        rows: Number of rows of the table.
        error: The exception that PyTorch raises.
        empty: Whether 0 is allowed for a table without rows.

    Raises:
        TypeError: ``padding_idx`` is not an int.
        AssertionError: There is no such row (or ``error``).
    """
    if padding_idx is None:
        return None
    row = arguments.integer(function, "padding_idx", padding_idx)
    if not -rows <= row < rows and not (empty and row == 0):
        raise error(
            f"{function}(): padding_idx must be within the number of embeddings, {-rows} through "
            f"{rows - 1}, but got {row}"
        )
    return row % rows if rows else None


def read(weight: jax.Array, index: jax.Array, max_norm: Any, norm_type: float) -> jax.Array:
    """Reads rows of a table, scaled to norm ``max_norm`` if theirs is above; without a gradient.

    Args:
        weight: Shape [rows, width].
        index: Shape [n]; an index outside [0, rows) reads NaN.
        max_norm: The bound, or None.
        norm_type: Order of the norm, as for ``torch.linalg.vector_norm``.

    Returns:
        Shape [n, width], floats of the accumulator's dtype.
    """
    weight = jax.lax.stop_gradient(weight)
    rows = gather(weight[None], index[None, :, None], pullback=Decision())[0]
    if jnp.issubdtype(rows.dtype, jnp.inexact):
        rows = convert(rows, accumulator(rows.dtype))
    if max_norm is None:
        return rows
    norm = _norm(rows, float(norm_type))
    bound = jnp.asarray(jax.lax.stop_gradient(max_norm), norm.dtype)
    # Without the fence, XLA repeats the division for each element of a row.
    scale = fence(bound / (norm + _EPSILON))
    over = (norm > bound)[:, None]
    return where(over, rows * scale[:, None], rows)


def _norm(rows: jax.Array, order: float) -> jax.Array:
    """Returns the norm of each row, a real number."""
    if jnp.iscomplexobj(rows):
        real, imag = rows.real, rows.imag
        size = jnp.sqrt(real * real + imag * imag)
    else:
        size = jnp.abs(rows)
    if order == 0:
        return (size != 0).sum(1, dtype=jnp.int32).astype(size.dtype)
    if math.isinf(order):
        return size.max(1, initial=0) if order > 0 else size.min(1, initial=jnp.inf)
    if order not in _WITHOUT_POWERS:
        return jnp.sum(size**order, 1) ** (1 / order)
    total = jnp.sum(size * size if order == 2 else size, 1)
    return jnp.sqrt(total) if order == 2 else total


def frequencies(index: jax.Array, rows: int) -> jax.Array:
    """Returns how often ``index`` reads each row, but at least 1: int32, shape [rows]."""
    ones = jnp.ones((1, index.shape[0], 1), jnp.int32)
    count = accumulate(jnp.zeros((1, rows, 1), jnp.int32), index[None, :, None], ones)
    return jnp.maximum(count.reshape(rows), 1)


def with_gradient(
    weight: jax.Array,
    values: jax.Array,
    index: jax.Array,
    *,
    divisors: jax.Array | None,
    padding: int | None,
    pullback: Decision,
) -> jax.Array:
    """Returns ``values`` with the derivative of the rows of ``weight`` that they were read from.

    Args:
        weight: Shape [rows, width].
        values: Shape [n, width], of the dtype of ``weight``, or of its accumulator.
        index: The row of each value: [n], or [n, width] for each element by itself.
        divisors: Divisor of the derivative of each row, shape [rows]; None for 1.
        padding: The row that has no derivative; None for no such row.
        pullback: The decision for the gradient.

    Returns:
        ``values``. The gradient is a sum in the dtype of ``values``, or, if it is divided, in the
        accumulator's; it is then divided and rounded.
    """
    if not jnp.issubdtype(weight.dtype, jnp.inexact):
        return values
    index = index[None, :, None] if index.ndim == 1 else index[None]
    return _with_gradient(weight, values, index, divisors, padding, pullback)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _with_gradient(
    weight: jax.Array,
    values: jax.Array,
    index: jax.Array,
    divisors: jax.Array | None,
    padding: int | None,
    pullback: Decision,
) -> jax.Array:
    del weight, index, divisors, padding, pullback
    return values


@_with_gradient.defjvp
def _jvp(padding: int | None, pullback: Decision, primals: Any, tangents: Any) -> Any:
    weight, values, index, divisors = primals
    dtype = sum_dtype(values.dtype) if divisors is None else accumulator(weight.dtype)
    table_dot = _tangent_of_table(tangents[0], divisors, padding, dtype)
    # Through this function again, so that the primal result can be differentiated a second time.
    values = _with_gradient(*primals, padding, pullback)
    return values, convert(gather(table_dot[None], index, pullback=pullback)[0], values.dtype)


def _tangent_of_table(
    tangent: jax.Array, divisors: jax.Array | None, padding: int | None, dtype: Any
) -> jax.Array:
    """Returns the tangent of a table, whose transpose divides the gradient and rounds it."""
    table_dot = convert(tangent, dtype)
    if divisors is not None:
        table_dot /= divisors.astype(table_dot.dtype)[:, None]
    if padding is not None:
        is_padding = jnp.arange(tangent.shape[0])[:, None] == padding
        table_dot = where(is_padding, 0, table_dot)
    return table_dot
