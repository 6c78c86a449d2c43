"""impl.median and impl.nanmedian."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, TypeVar, overload

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import Action, Decision, decide
from impl._primitives.alert import alert
from impl._primitives.arithmetic import divide
from impl._primitives.gather import gather
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl._primitives.select_kth import equal, select_kth
from impl.ops._selection import as_index, picked, real, reduced_shape, slices


class Median(NamedTuple):
    """Values, and where they stand."""

    values: jax.Array
    indices: jax.Array


class Nanmedian(NamedTuple):
    """Values, and where they stand."""

    values: jax.Array
    indices: jax.Array


_Pair = TypeVar("_Pair", Median, Nanmedian)


@overload
def median(input: Array, dim: None = None) -> jax.Array: ...


@overload
def median(input: Array, dim: int, keepdim: bool = False) -> Median: ...


def median(input: Array, dim: int | None = None, keepdim: bool = False) -> jax.Array | Median:
    """The median: of all elements, or along one dimension, and its index.

    Of an even number of elements the lower of the two in the middle; NaN where one of them is.

    Args:
        input: Any shape, integers or floats.
        dim: The dimension to reduce; None for all, which gives no indices.
        keepdim: Whether it stays, with length 1.

    Returns:
        With a ``dim``: values of the dtype of ``input``, and indices of int64 (int32 where x64 is
        off). Which of several equal elements is taken is what the mode settles; see the spec's
        rows. The gradient of a value goes to the element at its index. Without one: a number,
        whose gradient all elements that are equal to it share; of no elements NaN, or for
        integers what NaN is to them in PyTorch.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type, or there is a ``keepdim`` and no ``dim``.

    Source: ``torch.median``.
    """
    return _median("median", Median, _middle, input, dim, keepdim)


@overload
def nanmedian(input: Array, dim: None = None) -> jax.Array: ...


@overload
def nanmedian(input: Array, dim: int, keepdim: bool = False) -> Nanmedian: ...


def nanmedian(input: Array, dim: int | None = None, keepdim: bool = False) -> jax.Array | Nanmedian:
    """The median of what is not NaN: of all elements, or along one dimension, and its index.

    Of an even number of elements the lower of the two in the middle; NaN where all are.

    Args:
        input: Any shape, integers or floats.
        dim: The dimension to reduce; None for all, which gives no indices.
        keepdim: Whether it stays, with length 1.

    Returns:
        As for ``median``.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type, or there is a ``keepdim`` and no ``dim``.

    Source: ``torch.nanmedian``.
    """
    return _median("nanmedian", Nanmedian, _middle_number, input, dim, keepdim)


def _median(
    function: str,
    pair: type[_Pair],
    middle: Any,
    input: Array,
    dim: int | None,
    keepdim: bool,
) -> jax.Array | _Pair:
    input = real(function, input)
    arguments.flag(function, "keepdim", keepdim)
    if dim is None and keepdim:
        raise TypeError(f"{function}(): argument 'dim' must be given where 'keepdim' is True")
    facts = arguments.facts(input, returns_indices=dim is not None)
    if dim is None:
        decision = decide(function, **facts)
        values = alert(input.reshape(1, -1, 1), decision)
        return _of_all(values, middle, decision) if input.size else _of_none(input.dtype)
    values, dim = slices(function, input, dim, reduced=True)
    decision = decide(function, **facts)
    values = alert(values, decision)
    position = select_kth(values, middle(values), decision=decision)
    shape = reduced_shape(input, dim, keepdim)
    kept = picked(function, values, position, facts).reshape(shape)
    return pair(kept, as_index(position).reshape(shape))


def _middle(values: jax.Array) -> jax.Array:
    """The rank of the lower median, or that of NaN where there is one."""
    n = values.shape[1]
    return jnp.where(jnp.isnan(values).any(1, keepdims=True), n, (n + 1) // 2)


def _middle_number(values: jax.Array) -> jax.Array:
    """The rank of the lower median of the numbers, or that of NaN where there is none."""
    count = (~jnp.isnan(values)).sum(1, keepdims=True, dtype=jnp.int32)
    return jnp.maximum((count + 1) // 2, 1)


def _of_none(dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.full((), jnp.nan, dtype)
    # What x86 makes of NaN, by way of 32 bits or of 64.
    return jnp.full((), jnp.iinfo(dtype).min if dtype.itemsize >= 4 else 0, dtype)


def _of_all(values: jax.Array, middle: Any, decision: Decision) -> jax.Array:
    # No index is returned, so no row says which zero or NaN is taken: the first, on every path.
    first = Decision(elsewhere=Action(path="ordered"), emulation=decision.emulation)
    position = select_kth(values, middle(values), decision=first)
    return _shared(values, position, first).reshape(())


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _shared(values: jax.Array, position: jax.Array, decision: Decision) -> jax.Array:
    """The element of [1, n, 1] at a position; all that are equal to it share its derivative."""
    return gather(values, position, pullback=decision)


@_shared.defjvp
def _jvp(decision: Decision, primals: Any, tangents: Any) -> Any:
    values, position = primals
    value = _shared(values, position, decision)
    same = equal(values, value)
    dots = convert(tangents[0], accumulator(values.dtype))
    count = same.sum(1, keepdims=True, dtype=jnp.int32).astype(dots.dtype)
    # What is sent out of range is left out; backwards it reads 0.
    total = scatter_accumulate(
        jnp.zeros_like(count), jnp.where(same, 0, 1), dots, decision=decision
    )
    return value, convert(divide(total, count), values.dtype)
