"""The op ``index_reduce``, and the reductions of it and of ``scatter_reduce``.

``accumulate`` of ``_indexing`` computes sums, products and extremes. Means, and reductions without
the elements of the input (``include_self=False``), are added here.

For example, ``index_reduce([1., 2., 3.], 0, [2, 0, 2], [4., 5., 6.], reduce)``::

    reduce   include_self=True         include_self=False
    "prod"   [5., 2., 72.]             [5., 2., 24.]
    "mean"   [3., 2., 4.3333335]       [5., 2., 5.]
    "amax"   [5., 2., 6.]              [5., 2., 6.]
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array, dtype_kind
from impl._core.numerics import accumulator, convert, highest, lowest
from impl._kernels.launch import ADD, MUL, ReductionName
from impl._mode.alert import alert
from impl._mode.decide import decide
from impl.ops._indexing import accumulate, counts, extreme, index_of_slices, into_slices
from impl.ops._op import op


@op("torch.index_reduce")
def index_reduce(
    input: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
    unique_indices: bool = False,
) -> jax.Array:
    """Reduces the slices of ``source`` into slices of ``input`` along one dimension.

    Elements of ``input`` whose index does not occur in ``index`` keep their bits.

    A mean of integers is rounded down; its sum has at least 32 bits. (In PyTorch the sum and the
    number of terms of a narrower type wrap around.) If several elements equal the maximum or the
    minimum, the gradient is shared equally among them. The element of ``input`` has a share only if
    ``include_self`` is True. (In PyTorch it always has one.)

    Arguments, results and exceptions are as for ``index_add``, with these differences:

    - ``reduce`` is "prod", "mean", "amax" or "amin". If a NaN occurs, the maximum and the minimum
      are NaN.
    - ``include_self`` is whether the elements of ``input`` take part in the reduction.
    - An index that is out of range raises an IndexError. A mean of bools, and products, maxima and
      minima of complex numbers, raise a NotImplementedError.
    """
    input = arguments.array("index_reduce", "input", input)
    source = arguments.array("index_reduce", "source", source)
    dim, flat = index_of_slices("index_reduce", input, dim, index)
    arguments.choice("index_reduce", "reduce", reduce, tuple(by for by in BY if by != "sum"))
    arguments.flags("index_reduce", include_self=include_self, unique_indices=unique_indices)
    check_dtype("index_reduce", reduce, input.dtype)
    arguments.source_slices("index_reduce", input, dim, flat.shape[0], source)
    facts = arguments.facts(input, reduce=reduce, unique_indices=unique_indices)
    decision = decide("index_reduce", **facts)
    options = {"reduce": reduce, "include_self": include_self, "unique": unique_indices}
    return into_slices(reduced, alert(input, decision), dim, flat, source, **options)


#: The reduction for each value of ``reduce``. A mean is a sum that is divided at the end.
BY: Mapping[str, ReductionName] = MappingProxyType(
    {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}
)


def refuse_complex_product(function: str, dtype: jax.typing.DTypeLike) -> None:
    """Raises a NotImplementedError for complex numbers; the message names alternatives."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise NotImplementedError(
            f"{function}(): products are not implemented for {jnp.dtype(dtype)}; pass the "
            "logarithms of the factors to a sum and take its exponential, or use "
            "jax.numpy.ndarray.at[].multiply, which keeps no order"
        )


def check_dtype(function: str, reduce: str, dtype: jax.typing.DTypeLike) -> None:
    """Raises a NotImplementedError for a dtype for which the reduction is not defined."""
    kind = dtype_kind(dtype)
    if reduce == "prod":
        refuse_complex_product(function, dtype)
    elif (reduce == "mean" and kind == "bool") or (
        reduce in ("amax", "amin") and kind == "complex"
    ):
        raise NotImplementedError(
            f"{function}(): reduce={reduce!r} is not implemented for {jnp.dtype(dtype)}; convert "
            f"to {'an integer or float dtype' if kind == 'bool' else 'real numbers'} first"
        )


def reduced(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduce: str,
    include_self: bool,
    unique: bool,
) -> jax.Array:
    """Reduces ``updates`` into ``operand`` along its middle axis, as ``accumulate`` takes them.

    Elements that are not a destination keep their bits. ``reduce`` is a key of ``BY``.
    """
    if updates.size == 0 or operand.size == 0:
        return operand
    by = BY[reduce]
    if reduce == "mean":
        return _mean(operand, indices, updates, include_self=include_self, unique=unique)
    if include_self:
        return accumulate(operand, indices, updates, by=by, unique=unique)
    updated = counts(operand.shape[1], indices) > 0
    start = _without_self(operand, updated, by)
    if by in ("min", "max"):
        # An update may equal the infinity that an extreme starts from, which still has no share.
        takes_part = jnp.broadcast_to(~updated, operand.shape)
        return extreme(by, start, takes_part, indices, updates)
    return accumulate(start, indices, updates, by=by, unique=unique)


def _without_self(operand: jax.Array, updated: jax.Array, by: ReductionName) -> jax.Array:
    """Replaces each element of ``operand`` that has updates by the identity of the reduction."""
    return jnp.where(updated, jnp.asarray(_identity(by, operand.dtype), operand.dtype), operand)


def _identity(by: ReductionName, dtype: jax.typing.DTypeLike) -> Any:
    if by == "add":
        return ADD.identity(dtype)
    if by == "mul":
        return MUL.identity(dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return by == "min"
    return highest(dtype) if by == "min" else lowest(dtype)


def _mean(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    include_self: bool,
    unique: bool,
) -> jax.Array:
    """Divides sums by their numbers of terms; computes narrow floats in float32, rounded once."""
    number = counts(operand.shape[1], indices)
    updated = number > 0
    wide = wide_dtype(operand.dtype)
    start = convert(operand, wide)
    if not include_self:
        start = _without_self(start, updated, "add")
    total = accumulate(start, indices, convert(updates, wide), unique=unique)
    terms = number + 1 if include_self else jnp.maximum(number, 1)
    return jnp.where(updated, convert(_quotient(total, terms), operand.dtype), operand)


def wide_dtype(dtype: jax.typing.DTypeLike) -> np.dtype:
    """Returns the dtype of a computation: 32 bits for narrower dtypes."""
    dtype = np.dtype(dtype)
    return dtype if dtype.itemsize >= 4 else accumulator(dtype)


def _quotient(total: jax.Array, terms: jax.Array) -> jax.Array:
    """Returns ``total / terms``; quotients of integers are rounded down, as in PyTorch."""
    if jnp.issubdtype(total.dtype, jnp.complexfloating):
        real, imag = (_quotient(part, terms) for part in (total.real, total.imag))
        return jax.lax.complex(real, imag)
    terms = jnp.broadcast_to(terms.astype(total.dtype), total.shape)
    if jnp.issubdtype(total.dtype, jnp.integer):
        return jnp.floor_divide(total, terms)
    return total / terms
