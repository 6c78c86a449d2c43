"""The ops ``median`` and ``nanmedian``, of all elements or along a dimension.

Along a dimension the median is an element, found by the selection primitive. Of all elements it is
a number, whose gradient is shared among the elements that equal it:

    median([3, 1, 2, 4], dim=0)     value 2, index 2: the lower of the two middle elements
    median([2, 1, 2, 4])            2, with the gradient [0.5, 0, 0.5, 0]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
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
    """The result of ``median``.

    Attributes:
        values: The medians.
        indices: Their indices along the dimension.
    """

    values: jax.Array
    indices: jax.Array


class Nanmedian(NamedTuple):
    """The result of ``nanmedian``.

    Attributes:
        values: The medians.
        indices: Their indices along the dimension.
    """

    values: jax.Array
    indices: jax.Array


_Pair = TypeVar("_Pair", Median, Nanmedian)


@overload
def median(input: Array, dim: None = None) -> jax.Array: ...


@overload
def median(input: Array, dim: int, keepdim: bool = False) -> Median: ...


@eager.compiled
def median(input: Array, dim: int | None = None, keepdim: bool = False) -> jax.Array | Median:
    """Returns the median of all elements, or the medians along one dimension with their indices.

    The median of an even number of elements is the lower of the two in the middle. If an element is
    NaN, so is the median.

    Args:
        input: Any shape, integers or floats.
        dim: The dimension to reduce; None for all elements.
        keepdim: Whether ``dim`` stays, with length 1.

    Returns:
        With a ``dim``: values of the dtype of ``input``, and indices of int64 (int32 where x64 is
        off). With the mode off, the index may be any of several equal elements'. The
        gradient of a value goes to the element at its index.

        Without a ``dim``: a 0-d array of the dtype of ``input``. Its gradient is shared equally
        among all elements that equal it. The median of an empty array is NaN, or the integer to
        which PyTorch converts NaN.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type, or ``keepdim`` is True and ``dim`` is None.

    Source: ``torch.median``. The spec's rows state what the mode does, and the guarantee.
    """
    return _median("median", Median, _middle, input, dim, keepdim)


@overload
def nanmedian(input: Array, dim: None = None) -> jax.Array: ...


@overload
def nanmedian(input: Array, dim: int, keepdim: bool = False) -> Nanmedian: ...


@eager.compiled
def nanmedian(input: Array, dim: int | None = None, keepdim: bool = False) -> jax.Array | Nanmedian:
    """Returns the median of the elements that are not NaN: of all, or along one dimension.

    The median of an even number of elements is the lower of the two in the middle. If all elements
    are NaN, so is the median.

    Args:
        input: Any shape, integers or floats.
        dim: The dimension to reduce; None for all elements.
        keepdim: Whether ``dim`` stays, with length 1.

    Returns:
        The results described for ``median``.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type, or ``keepdim`` is True and ``dim`` is None.

    Source: ``torch.nanmedian``. The spec's rows state what the mode does, and the guarantee.
    """
    return _median("nanmedian", Nanmedian, _middle_number, input, dim, keepdim)


def _median(
    function: str,
    pair: type[_Pair],
    middle: _Find,
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
        return _of_all(values, middle, decision) if input.size else _of_empty(input.dtype)
    values, dim = slices(function, input, dim, reduced=True)
    decision = decide(function, **facts)
    values = alert(values, decision)
    position = middle(values, decision)
    shape = reduced_shape(input, dim, keepdim)
    elements = picked(values, position).reshape(shape)
    return pair(elements, as_index(position).reshape(shape))


#: Finds the position of a median of [outer, n, inner] under a decision.
_Find = Callable[[jax.Array, Decision], jax.Array]


def _middle(values: jax.Array, decision: Decision) -> jax.Array:
    """Returns the position of the lower median, or of a NaN if there is one."""
    middle = (values.shape[1] + 1) // 2
    return select_kth(values, middle, decision=decision, nan_first=True)


def _middle_number(values: jax.Array, decision: Decision) -> jax.Array:
    """Returns the position of the lower median of the numbers, or of a NaN if all are NaN."""
    count = (~jnp.isnan(values)).sum(1, keepdims=True, dtype=jnp.int32)
    return select_kth(values, jnp.maximum((count + 1) // 2, 1), decision=decision)


def _of_empty(dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.full((), jnp.nan, dtype)
    # PyTorch converts NaN to an integer; this is the result on x86, by way of 32 or 64 bits.
    return jnp.full((), jnp.iinfo(dtype).min if dtype.itemsize >= 4 else 0, dtype)


def _of_all(values: jax.Array, middle: _Find, decision: Decision) -> jax.Array:
    # No index is returned, so no row decides between -0 and 0, or between two NaNs. The first of
    # equal elements is selected on every path.
    first = Decision(elsewhere=Action(path="ordered"), emulation=decision.emulation)
    position = middle(values, first)
    return _shared(values, position, first).reshape(())


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _shared(values: jax.Array, position: jax.Array, decision: Decision) -> jax.Array:
    """Returns the element of [1, n, 1] at a position; equal elements share its derivative."""
    return gather(values, position, pullback=decision)


@_shared.defjvp
def _jvp(decision: Decision, primals: Any, tangents: Any) -> Any:
    values, position = primals
    value = _shared(values, position, decision)
    sharing = equal(values, value)
    dots = convert(tangents[0], accumulator(values.dtype))
    count = sharing.sum(1, keepdims=True, dtype=jnp.int32).astype(dots.dtype)
    # Index 1 is out of range: that tangent is dropped, and its cotangent is 0.
    total = scatter_accumulate(
        jnp.zeros_like(count), jnp.where(sharing, 0, 1), dots, decision=decision
    )
    return value, convert(divide(total, count), values.dtype)
