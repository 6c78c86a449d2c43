"""impl.index_put."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.subscripts import arrays_alone, check_mask, is_mask
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl._primitives.scatter_assign import scatter_assign
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


def index_put(
    input: Array | QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = False,
    *,
    unique_indices: bool = False,
) -> jax.Array | QuantizedArray:
    """Writes ``values`` to places of ``input``, or adds them to what is there.

    Args:
        input: At least one dimension, any dtype; or a ``QuantizedArray``.
        indices: A tuple or list of arrays, one for each leading dimension of ``input``, that
            broadcast together; None stands for all of a dimension. Arrays are of int32 or int64,
            or masks of bool or uint8, which stand for as many dimensions as they have. Negative
            indices count from the end. Under ``jit`` those out of range are dropped.
        values: Of the dtype of ``input``; broadcast to the shape of ``getitem(input, indices)``,
            for which None is a full slice. Where ``input`` is quantized they are float32, and
            are quantized as it is before they are written.
        accumulate: Whether to add. If not, of several writes to one place the last one stays
            where the mode keeps an order, and its gradient is that write's alone.
        unique_indices: Vouches that no place occurs twice, so that there is no order to keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: An index is out of range; or an array is one too many, of a wrong dtype or, as
            a mask, of a wrong shape; or the arrays do not broadcast.
        NotImplementedError: The indexed dimensions have more elements together than 32 bits count,
            and x64 is off.
        RuntimeError: ``values`` are of another dtype or do not broadcast; ``indices`` hold no
            array; ``input`` is quantized and ``accumulate`` is set; or the mode is on and the
            profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type; or a mask is not known under ``jit``, which
            is allowed only as the one array, with one value that is not added.

    Source: ``torch.Tensor.index_put``. What the mode does, and the guarantee, are in the spec's
    rows.
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
    places, unique = arrays_alone(_NAME, input.shape, indices)
    decision = decide(_NAME, **facts, unique_indices=unique_indices or unique)
    _check_values(values, places.result_shape)
    write = scatter_accumulate if accumulate else scatter_assign
    out = write(
        places.fold(alert(input, decision)), places.flat, places.spread(values), decision=decision
    )
    return places.unfold(out)


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
    """One value wherever a mask says; how often that is need not be known."""
    mask = next(index for index in indices if index is not None)
    dim = next(place for place, index in enumerate(indices) if index is not None)
    check_mask(_NAME, mask.shape, input.shape, dim)
    after = input.ndim - dim - mask.ndim
    _check_values(value, (*input.shape[:dim], 1, *input.shape[dim + mask.ndim :]))
    chosen = mask.reshape(mask.shape + (1,) * after) != 0
    return jnp.where(chosen, value.reshape(()), input)


def _check_values(values: jax.Array, shape: tuple[int, ...]) -> None:
    try:
        fits = jnp.broadcast_shapes(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"{_NAME}(): shape mismatch: values of shape {list(values.shape)} cannot be broadcast "
            f"to the indexed shape {list(shape)}"
        )
