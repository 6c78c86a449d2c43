"""Cumulative sums, products, maxima and minima along a dimension.

The ops ``cumsum``, ``cumprod``, ``logcumsumexp``, ``cummax`` and ``cummin`` check their arguments,
state their facts and call the scan primitives through this module.
"""

from __future__ import annotations

import warnings
from typing import Literal

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._core.numerics import accumulator, convert
from impl._families.scan_combines import Running
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert
from impl._primitives.scan import scan
from impl._primitives.scan_extreme import scan_extreme


def total(
    function: str,
    by: Running,
    input: Array,
    dim: int,
    dtype: jax.typing.DTypeLike | None,
) -> jax.Array:
    """Computes cumulative sums or products of ``input``, converted to ``dtype`` first.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``dtype`` is bool.
        TypeError: An argument is of the wrong type.
    """
    input = arguments.array(function, "input", input)
    dim = arguments.dimension(dim, input.ndim, function)
    if dtype is None:
        integral = arguments.dtype_kind(input.dtype) in ("integer", "bool")
        values = input.astype(jnp.result_type(int)) if integral else input
    else:
        values = _converted(function, input, dtype)
    return along(values, by, dim, decide(function, **arguments.facts(values)))


def _converted(function: str, input: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    try:
        target = jnp.dtype(dtype)
    except TypeError as error:
        raise TypeError(
            f"{function}(): argument 'dtype' must be a dtype or None, not {type(dtype).__name__}"
        ) from error
    kind = arguments.dtype_kind(target)
    if target == jnp.bool_ or not jnp.issubdtype(target, jnp.number):
        raise NotImplementedError(
            f"{function}(): not implemented for dtype {target}; pass an integer, floating point or "
            "complex dtype"
        )
    if jnp.iscomplexobj(input) and kind != "complex":
        eager.refuse()  # A compiled program would warn at its first call alone.
        warnings.warn(
            f"{function}(): casting {input.dtype} to {target} discards the imaginary part",
            UserWarning,
            stacklevel=4,
        )
        input = input.real
    return input.astype(target)


def along(values: jax.Array, by: Running, dim: int, decision: Decision) -> jax.Array:
    """Folds ``values`` cumulatively along ``dim``.

    float16 and bfloat16 are computed in float32, in derivatives too, and rounded once.
    """
    floating = arguments.dtype_kind(values.dtype) == "floating"
    # Sums and their derivatives are sums, which are computed so in any case.
    wide = accumulator(values.dtype) if floating and by != "add" else values.dtype
    lanes = convert(three_axes(alert(values, decision), dim), wide)
    return convert(scan(lanes, decision=decision, by=by), values.dtype).reshape(values.shape)


def extreme(
    function: str, by: Literal["min", "max"], input: Array, dim: int
) -> tuple[jax.Array, jax.Array]:
    """Computes cumulative maxima or minima of ``input``, and their indices.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is complex.
        TypeError: An argument is of the wrong type.
    """
    input = arguments.array(function, "input", input)
    dim = arguments.dimension(dim, input.ndim, function)
    if arguments.dtype_kind(input.dtype) == "complex":
        raise NotImplementedError(
            f"{function}(): not implemented for {input.dtype}; complex numbers have no order, take "
            "the absolute value or a part"
        )
    facts = arguments.facts(input)
    decision = decide(function, **facts, reduce=f"a{by}")
    values, positions = scan_extreme(
        alert(three_axes(input, dim), decision),
        by,
        decision=decision,
        pullback=decide(function, "backward", **facts),
    )
    indices = positions.astype(jnp.result_type(int))
    return values.reshape(input.shape), indices.reshape(input.shape)
