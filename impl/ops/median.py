"""The ops ``median`` and ``nanmedian``, of all elements or along a dimension.

Along a dimension the median is an element, found by a sort. Of all elements it is a number, whose
gradient is shared among the elements that equal it:

    median([3, 1, 2, 4], dim=0)     value 2, index 2: the lower of the two middle elements
    median([2, 1, 2, 4])            2, with the gradient [0.5, 0, 0.5, 0]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

import jax
import jax.numpy as jnp
from jax import lax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.float_order import sort_keys
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._selection import as_index, kth, lanes, picked, real, reduced_shape


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
        off); of equal elements the lowest index. The gradient of a value goes to the element at its
        index.

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
    middle: _KeyOf,
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
        values = alert(input.reshape(-1), decide(function, **facts))
        if not input.size:
            return _of_empty(input.dtype)
        return _shared(values, kth(values, 0, functools.partial(middle, values, 0))).reshape(())
    values, dim = lanes(function, input, dim, reduced=True)
    values = alert(values, decide(function, **facts))
    index = kth(values, dim, functools.partial(middle, values, dim))
    shape = reduced_shape(input, dim, keepdim)
    return pair(picked(values, index, dim).reshape(shape), as_index(index).reshape(shape))


#: Returns the key of a median along a dimension from the values, the dimension and the sorted keys.
_KeyOf = Callable[[jax.Array, int, jax.Array], jax.Array]


def _middle(values: jax.Array, dim: int, keys: jax.Array) -> jax.Array:
    """Returns the key of the lower median, or of a NaN if there is one."""
    n = keys.shape[dim]
    middle = lax.slice_in_dim(keys, (n - 1) // 2, (n + 1) // 2, axis=dim)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return middle
    last = lax.slice_in_dim(keys, n - 1, n, axis=dim)
    return lax.select(jnp.isnan(values).any(dim, keepdims=True), last, middle)


def _middle_number(values: jax.Array, dim: int, keys: jax.Array) -> jax.Array:
    """Returns the key of the lower median of the numbers, or of a NaN if all are NaN."""
    count = (~jnp.isnan(values)).sum(dim, keepdims=True, dtype=jnp.int32)
    return picked(keys, jnp.maximum(count - 1, 0) // 2, dim)


def _of_empty(dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.full((), jnp.nan, dtype)
    # PyTorch converts NaN to an integer; this is the result on x86, by way of 32 or 64 bits.
    return jnp.full((), jnp.iinfo(dtype).min if dtype.itemsize >= 4 else 0, dtype)


@jax.custom_jvp
def _shared(values: jax.Array, index: jax.Array) -> jax.Array:
    """Returns the element at an index of one axis; its equals share its derivative."""
    return picked(values, index, 0)


@_shared.defjvp
def _jvp(primals: Any, tangents: Any) -> Any:
    values, index = primals
    value = _shared(values, index)
    is_equal = sort_keys(values) == sort_keys(value)
    dots = convert(tangents[0], accumulator(values.dtype))
    total = jnp.where(is_equal, dots, 0).sum(keepdims=True)
    return value, convert(total / is_equal.sum(dtype=dots.dtype), values.dtype)
