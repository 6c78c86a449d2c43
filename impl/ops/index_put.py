"""The op ``index_put``: writes or adds values at indices of several dimensions.

Arrays of indices become one flat index, along which a scatter counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import broadcasts_to
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._indexing import accumulate as add
from impl.ops._indexing import assign
from impl.ops._subscripts import arrays_alone, check_mask, is_mask
from impl.quantized import QuantizedArray, to_be_written

_NAME = "index_put"


@overload
def index_put(
    input: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = ...,
    *,
    unique_indices: bool = ...,
) -> jax.Array: ...


@overload
def index_put(
    input: QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = ...,
    *,
    unique_indices: bool = ...,
) -> QuantizedArray: ...


@eager.compiled
def index_put(
    input: Array | QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = False,
    *,
    unique_indices: bool = False,
) -> jax.Array | QuantizedArray:
    """Writes ``values`` to elements of ``input``, or adds them.

    Args:
        input: At least one dimension, any dtype; or a ``QuantizedArray``.
        indices: A tuple or list of arrays that broadcast together, one for each leading dimension
            of ``input``. None selects all of a dimension. Arrays are of int32 or int64; or they are
            masks of bool or uint8, which count as one array for each of their dimensions. Negative
            indices count from the end. Under ``jit`` an update whose index is out of range is
            dropped.
        values: Of the dtype of ``input``; broadcast to the shape of ``getitem(input, indices)``,
            where None is a full slice. For a quantized ``input`` they are float32, and are
            quantized with its scale and zero point before they are written.
        accumulate: Whether to add instead of to write. Without it, if several values are written to
            one element, one stays: the last, if the mode keeps an order. The gradient at that
            element goes to the value that stays.
        unique_indices: Promises that no element is updated twice, so that the order does not
            matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: An index is out of range; there are too many arrays; an array has a wrong dtype,
            or a mask a wrong shape; or the arrays do not broadcast.
        NotImplementedError: The indexed dimensions together have more elements than 32 bits can
            count, and x64 is off.
        RuntimeError: ``values`` are of another dtype or do not broadcast; ``indices`` holds no
            array; ``input`` is quantized and ``accumulate`` is True; or the mode is on and the
            profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type; or a mask is not known under ``jit``. Such a
            mask is accepted only as the single array, with one value and ``accumulate=False``.

    Source: ``torch.Tensor.index_put``. The spec's rows state what the mode does, and the guarantee.
    """
    if isinstance(input, QuantizedArray):
        return _quantized(input, indices, values, accumulate, unique_indices)
    input = arguments.array(_NAME, "input", input)
    if not isinstance(indices, tuple | list):
        raise TypeError(
            f"{_NAME}(): argument 'indices' must be tuple of arrays, not {type(indices).__name__}"
        )
    values = arguments.array(_NAME, "values", values)
    arguments.flag(_NAME, "accumulate", accumulate)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    arguments.same_dtype(_NAME, input, values=values)
    facts = arguments.facts(input, accumulate=accumulate)
    if not accumulate and values.size == 1 and _is_one_traced_mask(indices):
        decision = decide(_NAME, **facts, unique_indices=True)
        return _masked(alert(input, decision), indices, values)
    index, unique = arrays_alone(_NAME, input.shape, indices)
    unique = unique_indices or unique
    decision = decide(_NAME, **facts, unique_indices=unique)
    _check_values(values, index.result_shape)
    write = add if accumulate else assign
    out = write(index.fold(alert(input, decision)), index.flat, index.spread(values), unique=unique)
    return index.unfold(out)


def _quantized(
    input: QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool,
    unique_indices: bool,
) -> QuantizedArray:
    arguments.flag(_NAME, "accumulate", accumulate)
    if accumulate:
        raise RuntimeError(
            f"{_NAME}(): argument 'accumulate' must be False where 'input' is quantized; "
            "dequantize it, add, and quantize the sum"
        )
    written = to_be_written(_NAME, values, input)
    out = index_put(input.int_repr, indices, written, unique_indices=unique_indices)
    return dataclasses.replace(input, int_repr=out)


def _is_one_traced_mask(indices: Sequence[Any]) -> bool:
    arrays = [index for index in indices if index is not None]
    return len(arrays) == 1 and is_mask(arrays[0]) and arguments.known(arrays[0]) is None


def _masked(input: jax.Array, indices: Sequence[Any], value: jax.Array) -> jax.Array:
    """Writes one value to every element that a mask selects; their number need not be known."""
    dim, mask = next((axis, index) for axis, index in enumerate(indices) if index is not None)
    check_mask(_NAME, mask.shape, input.shape, dim)
    after = input.ndim - dim - mask.ndim
    _check_values(value, (*input.shape[:dim], 1, *input.shape[dim + mask.ndim :]))
    selected = mask.reshape(mask.shape + (1,) * after) != 0
    return jnp.where(selected, value.reshape(()), input)


def _check_values(values: jax.Array, shape: tuple[int, ...]) -> None:
    if not broadcasts_to(values.shape, shape):
        raise RuntimeError(
            f"{_NAME}(): shape mismatch: values of shape {list(values.shape)} cannot be broadcast "
            f"to the indexed shape {list(shape)}"
        )
