"""What running sums, products and extremes share."""

from __future__ import annotations

import warnings
from typing import Literal

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._core.numerics import accumulator, convert
from impl._core.scan_combines import Running
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert
from impl._primitives.scan import scan
from impl._primitives.scan_extreme import scan_extreme


def total(
    name: str,
    by: Running,
    input: Array,
    dim: int,
    dtype: jax.typing.DTypeLike | None,
) -> jax.Array:
    """Running sums or products of ``input``, converted to ``dtype`` first.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``dtype`` is bool.
        TypeError: An argument is of the wrong type.
    """
    input = arguments.array(name, "input", input)
    dim = arguments.dimension(dim, input.ndim, name)
    if dtype is None:
        exact = arguments.dtype_kind(input.dtype) in ("integer", "bool")
        values = input.astype(jnp.result_type(int)) if exact else input
    else:
        values = _converted(name, input, dtype)
    return along(values, by, dim, decide(name, **arguments.facts(values)))


def _converted(name: str, input: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    try:
        wanted = jnp.dtype(dtype)
    except TypeError as error:
        raise TypeError(
            f"{name}(): argument 'dtype' must be a dtype or None, not {type(dtype).__name__}"
        ) from error
    kind = arguments.dtype_kind(wanted)
    if wanted == jnp.bool_ or not jnp.issubdtype(wanted, jnp.number):
        raise NotImplementedError(
            f"{name}(): not implemented for dtype {wanted}; pass an integer, floating point or "
            "complex dtype"
        )
    if jnp.iscomplexobj(input) and kind != "complex":
        warnings.warn(
            f"{name}(): casting {input.dtype} to {wanted} discards the imaginary part",
            UserWarning,
            stacklevel=4,
        )
        input = input.real
    return input.astype(wanted)


def along(values: jax.Array, by: Running, dim: int, decision: Decision) -> jax.Array:
    """Running folds of ``values`` along ``dim``.

    Narrow floats are wide all the way, in derivatives too, and rounded once.
    """
    floating = arguments.dtype_kind(values.dtype) == "floating"
    wide = accumulator(values.dtype) if floating else values.dtype
    lanes = convert(three_axes(alert(values, decision), dim), wide)
    return convert(scan(lanes, decision=decision, by=by), values.dtype).reshape(values.shape)


def extreme(
    name: str, by: Literal["min", "max"], input: Array, dim: int
) -> tuple[jax.Array, jax.Array]:
    """Running extremes of ``input``, and their indices.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is complex.
        TypeError: An argument is of the wrong type.
    """
    input = arguments.array(name, "input", input)
    dim = arguments.dimension(dim, input.ndim, name)
    if arguments.dtype_kind(input.dtype) == "complex":
        raise NotImplementedError(
            f"{name}(): not implemented for {input.dtype}; complex numbers have no order, take "
            "the absolute value or a part"
        )
    facts = arguments.facts(input)
    decision = decide(name, **facts, reduce=f"a{by}")
    values, places = scan_extreme(
        alert(three_axes(input, dim), decision),
        by,
        decision=decision,
        pullback=decide(name, "backward", **facts),
    )
    indices = places.astype(jnp.result_type(int))
    return values.reshape(input.shape), indices.reshape(input.shape)
