"""What embeddings share: rows of a table, bounded in norm, with gradients of their own kind."""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl._core import arguments
from impl._core.numerics import accumulator, by_parts, convert, fence
from impl._mode.decide import Action, Decision
from impl._primitives.arithmetic import divide, multiply
from impl._primitives.gather import gather
from impl._primitives.scatter_accumulate import scatter_accumulate

#: The orders of a norm that need no powers but squares.
_PLAIN = (0.0, 1.0, 2.0, math.inf, -math.inf)
#: What PyTorch adds to a norm before it divides by it.
_EPSILON = 1e-7


def facts(
    function: str, input: jax.Array, weight: jax.Array, max_norm: Any, norm_type: Any
) -> dict[str, spec.FactValue]:
    """The facts of a lookup; refuses norms that are none.

    Raises:
        RuntimeError: ``max_norm`` is given for a ``weight`` without fractions.
        TypeError: ``max_norm`` or ``norm_type`` is not a real number.
    """
    if isinstance(norm_type, bool) or not isinstance(norm_type, numbers.Real):
        raise TypeError(
            f"{function}(): argument 'norm_type' must be float, not {type(norm_type).__name__}"
        )
    if max_norm is not None:
        arguments.number(function, "max_norm", max_norm)
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
        "power_norm": float(norm_type) not in _PLAIN,
    }


def padding_row(
    function: str, padding_idx: Any, rows: int, error: type[Exception], *, empty: bool = False
) -> int | None:
    """The row that ``padding_idx`` names, counted from the front.

    Args:
        function: Who asks.
        padding_idx: An int, or None.
        rows: How many there are.
        error: The exception that PyTorch has here.
        empty: Whether 0 is allowed where there is no row.

    Raises:
        TypeError: It is not an int.
        AssertionError: There is no such row (or the ``error`` that PyTorch has here).
    """
    if padding_idx is None:
        return None
    asked = arguments.integer(function, "padding_idx", padding_idx)
    if not -rows <= asked < rows and not (empty and asked == 0):
        raise error(
            f"{function}(): padding_idx must be within the number of embeddings, {-rows} through "
            f"{rows - 1}, but got {asked}"
        )
    return asked % rows if rows else None


def read(
    weight: jax.Array, places: jax.Array, max_norm: Any, norm_type: float, *, decision: Decision
) -> jax.Array:
    """Rows of a table, whose norm is ``max_norm`` where it was above; without a gradient.

    A norm adds up in panel order, on every path: it costs no more than another order would.

    Args:
        weight: Shape [rows, width].
        places: Shape [n]; a place outside [0, rows) reads NaN.
        max_norm: The bound, or None.
        norm_type: Which norm; as for ``torch.linalg.vector_norm``.
        decision: That of the forward pass.

    Returns:
        Shape [n, width], floats of the accumulator's dtype.
    """
    weight = jax.lax.stop_gradient(weight)
    rows = gather(weight[None], places[None, :, None], pullback=decision)[0]
    if jnp.issubdtype(rows.dtype, jnp.inexact):
        rows = convert(rows, accumulator(rows.dtype))
    if max_norm is None:
        return rows
    kept = Decision(elsewhere=Action(path="ordered"), emulation=decision.emulation)
    norm = _norm(rows, float(norm_type), kept)
    bound = jnp.asarray(jax.lax.stop_gradient(max_norm), norm.dtype)
    # Fenced, or XLA divides again for each element of a row.
    scale = fence(divide(jnp.broadcast_to(bound, norm.shape), norm + _EPSILON))
    over = (norm > bound)[:, None]
    if jnp.iscomplexobj(rows):
        return jnp.where(over, by_parts(lambda x: multiply(x, scale[:, None]), rows), rows)
    return jnp.where(over, multiply(rows, scale[:, None]), rows)


def _norm(rows: jax.Array, order: float, decision: Decision) -> jax.Array:
    """The norm of each row, real."""
    if jnp.iscomplexobj(rows):
        real, imag = rows.real, rows.imag
        size = jnp.sqrt(multiply(real, real) + multiply(imag, imag))
    else:
        size = jnp.abs(rows)
    if order == 0:
        return (size != 0).sum(1, dtype=jnp.int32).astype(size.dtype)
    if math.isinf(order):
        return size.max(1, initial=0) if order > 0 else size.min(1, initial=jnp.inf)
    if order not in _PLAIN:
        return _total(size**order, decision) ** (1 / order)
    total = _total(multiply(size, size) if order == 2 else size, decision)
    return jnp.sqrt(total) if order == 2 else total


def _total(values: jax.Array, decision: Decision) -> jax.Array:
    """The sum of each row, in panel order with one destination."""
    count, width = values.shape
    zero = jnp.zeros((1, 1, count), values.dtype)
    home = jnp.zeros((1, width, 1), jnp.int32)
    # Fenced: what follows is not to be taken into the sum.
    return fence(scatter_accumulate(zero, home, values.T[None], decision=decision)[0, 0])


def frequencies(places: jax.Array, rows: int, *, decision: Decision) -> jax.Array:
    """How often each of ``rows`` is read, at least 1: int32, shape [rows]."""
    count = scatter_accumulate(
        jnp.zeros((1, rows, 1), jnp.int32),
        places[None, :, None],
        jnp.ones((1, places.shape[0], 1), jnp.int32),
        decision=decision,
    )
    return jnp.maximum(count.reshape(rows), 1)


def learned(
    weight: jax.Array,
    values: jax.Array,
    places: jax.Array,
    *,
    shares: jax.Array | None,
    padding: int | None,
    pullback: Decision,
) -> jax.Array:
    """``values``, with the derivative of the rows of ``weight`` that they are.

    Args:
        weight: Shape [rows, width].
        values: Shape [n, width], of the accumulator's dtype.
        places: Where each comes from: [n], or [n, width] for each element by itself.
        shares: What to divide each row's derivative by, shape [rows]; None for 1.
        padding: The row that has no derivative.
        pullback: What differentiating it does.

    Returns:
        ``values``. A gradient adds up in the accumulator's dtype, is then divided and rounded.
    """
    if not jnp.issubdtype(weight.dtype, jnp.inexact):
        return values
    places = places[None, :, None] if places.ndim == 1 else places[None]
    return _learned(weight, values, places, shares, padding, pullback)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _learned(
    weight: jax.Array,
    values: jax.Array,
    places: jax.Array,
    shares: jax.Array | None,
    padding: int | None,
    pullback: Decision,
) -> jax.Array:
    del weight, places, shares, padding, pullback
    return values


@_learned.defjvp
def _jvp(padding: int | None, pullback: Decision, primals: Any, tangents: Any) -> Any:
    weight, _, places, shares = primals
    rows_dot = convert(tangents[0], accumulator(weight.dtype))
    if shares is not None:

        def shared(dot: jax.Array) -> jax.Array:
            return divide(dot, shares.astype(dot.dtype)[:, None])

        complex_ = jnp.iscomplexobj(rows_dot)
        rows_dot = by_parts(shared, rows_dot) if complex_ else shared(rows_dot)
    if padding is not None:
        is_padding = jnp.arange(weight.shape[0])[:, None] == padding
        rows_dot = jnp.where(is_padding, 0, rows_dot)
    # The call itself, which has the derivative that is asked for next.
    values = _learned(*primals, padding, pullback)
    return values, gather(rows_dot[None], places, pullback=pullback)[0]
