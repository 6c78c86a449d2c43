"""Shapes, checks and derivatives of the ops that pick elements along a dimension.

The ops are ``kthvalue``, ``median``, ``nanmedian``, ``mode``, ``topk``, ``sort`` and ``argsort``.
Each finds indices by a stable sort, and reads the elements there, so that gradients go to them. A
sort compares integers in the order of the elements: -0 equals 0, NaNs come last and are equal, and
subnormal numbers differ from 0 on every device::

    values   nan  1.0 -0.0  0.0     descending order   nan  1.0 -0.0  0.0
                                    indices              0    1    2    3
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d
from impl._core.float_order import in_order, sort_keys
from impl._core.numerics import fence
from impl._core.partitioning import as_bits


def real(
    function: str,
    input: Array,
    *,
    bools: bool = False,
    error: type[Exception] = NotImplementedError,
) -> jax.Array:
    """Returns ``input`` as a JAX array of real numbers.

    Args:
        function: The name of the op, for messages.
        input: The argument of the op.
        bools: Whether bools are accepted.
        error: The exception that PyTorch raises for other dtypes.

    Raises:
        TypeError: ``input`` is not an array.
        NotImplementedError: ``input`` is complex, or of bools that are not accepted. Another
            ``error`` replaces this exception.
    """
    input = arguments.array(function, "input", input)
    if arguments.dtype_kind(input.dtype) in {"complex"} | (set() if bools else {"bool"}):
        taken = "bools, integers and floats" if bools else "integers and floats"
        raise error(f"{function}(): not implemented for {input.dtype}; it takes {taken}")
    return input


def lanes(function: str, input: jax.Array, dim: int, *, reduced: bool) -> tuple[jax.Array, int]:
    """Returns ``input`` with at least one dimension, and ``dim`` counted from the front.

    Args:
        function: The name of the op, for messages.
        input: An array of any shape.
        dim: A dimension; negative ones count from the end.
        reduced: Whether the op picks one element along ``dim``, which then must not be empty.

    Raises:
        IndexError: ``dim`` is out of range, or is empty and ``reduced`` is True.
    """
    dim = arguments.dimension(dim, input.ndim, function)
    values = at_least_1d(input)
    if reduced and values.shape[dim] == 0:
        raise IndexError(f"{function}(): Expected reduction dim {dim} to have non-zero size.")
    sharding = jax.typeof(values).sharding
    if sharding.spec[dim] is not None:  # XLA sorts no axis that is cut over an explicit mesh.
        spec = [None if axis == dim else names for axis, names in enumerate(sharding.spec)]
        values = jax.sharding.reshard(values, jax.sharding.PartitionSpec(*spec))
    return values, dim


def argsort(values: jax.Array, dim: int, *, descending: bool = False) -> jax.Array:
    """Returns the indices along ``dim`` in sorted order, int32, of the shape of ``values``."""
    return _argsort(_keys(values, descending=descending), dim)


def first_in_order(
    values: jax.Array, count: int, dim: int, *, descending: bool = False
) -> jax.Array:
    """Returns the first ``count`` indices that ``argsort`` returns along ``dim``."""

    def by_sort(keys: jax.Array) -> jax.Array:
        return lax.slice_in_dim(_argsort(keys, dim), 0, count, axis=dim)

    def by_heap(keys: jax.Array) -> jax.Array:
        keys = lax.bitwise_not(keys)
        if keys.dtype == jnp.uint32:
            keys = lax.bitcast_convert_type(keys ^ np.uint32(1 << 31), jnp.int32)
        if keys.dtype.itemsize < 4:
            numbers = keys.astype(jnp.float32)
        else:
            numbers = lax.bitcast_convert_type(in_order(keys), jnp.float32)
        # Fused with the transpose for another ``dim`` than the last, this takes twice as long.
        return lax.top_k(fence(numbers), count, axis=dim)[1]

    keys = _keys(values, descending=descending)
    if keys.dtype.itemsize > 4:
        return by_sort(keys)
    # XLA for a CPU compares the bits of float32, and takes the lowest index of equal ones. Its
    # top-k of other dtypes is a sort.
    index: jax.Array = lax.platform_dependent(keys, cpu=by_heap, default=by_sort)
    return index


def _keys(values: jax.Array, *, descending: bool) -> jax.Array:
    """Returns integers that are in ascending order where ``values`` are in sorted order."""
    keys = sort_keys(values)
    return lax.bitwise_not(keys) if descending else keys


def _argsort(keys: jax.Array, dim: int) -> jax.Array:
    operands = (keys, _positions(keys, dim))
    return lax.sort(operands, dimension=dim, is_stable=True, num_keys=1)[1]


def most_frequent(values: jax.Array, dim: int) -> jax.Array:
    """Returns the first index of the least of the most frequent elements along ``dim``.

    Returns:
        int32, with length 1 along ``dim``.
    """
    keys = sort_keys(values)
    ordered = lax.sort(keys, dimension=dim, is_stable=True)
    position = _positions(keys, dim)
    widths = [(int(axis == dim), -int(axis == dim), 0) for axis in range(keys.ndim)]
    before = lax.pad(ordered, ordered.dtype.type(0), widths)
    starts_run = (position == 0) | (ordered != before)
    if jnp.issubdtype(values.dtype, jnp.floating):
        starts_run |= ordered == jnp.iinfo(ordered.dtype).max  # A NaN equals nothing.
    start = lax.cummax(jnp.where(starts_run, position, 0), axis=dim)
    # The first of the longest runs ends where an element is furthest from the start of its run.
    last = jnp.argmax(position - start, axis=dim, keepdims=True).astype(jnp.int32)
    return first_equal(keys, picked(ordered, last, dim), dim)


def kth(values: jax.Array, dim: int, key_of: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Returns the first index of an element of a given rank, int32, with length 1 along ``dim``.

    Args:
        values: Real numbers.
        dim: The dimension along which the element is picked.
        key_of: Takes the keys in ascending order, and returns one of them with length 1 along
            ``dim``.
    """
    keys = sort_keys(values)
    # Equal keys are interchangeable, and XLA's stable sort of integers is the faster one on a CPU.
    return first_equal(keys, key_of(lax.sort(keys, dimension=dim, is_stable=True)), dim)


def first_equal(keys: jax.Array, key: jax.Array, dim: int) -> jax.Array:
    """Returns the first index along ``dim`` of a key, int32, with length 1 along ``dim``."""
    position = _positions(keys, dim)
    beyond = lax.full_like(position, keys.shape[dim])
    first = lax.reduce_min(lax.select(keys == key, position, beyond), (dim,))
    return lax.expand_dims(first, (dim,))


def picked(values: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    """Returns the elements at distinct indices along ``dim``; gradients go to these alone."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return _gather(values, index, dim)
    return _picked(values, index, dim)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _picked(values: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    # XLA adds zeros to elements that it reads from another device, and would lose the sign of -0.
    return as_bits(functools.partial(_gather, dim=dim))(values, index)  # type: ignore[no-any-return]


@_picked.defjvp
def _jvp(dim: int, primals: Any, tangents: Any) -> Any:
    return _picked(*primals, dim), _gather(tangents[0], primals[1], dim)


def _gather(values: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    others = tuple(axis for axis in range(values.ndim) if axis != dim)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    sizes = [1 if axis == dim else min(1, n) for axis, n in enumerate(values.shape)]
    start = lax.expand_dims(index, (index.ndim,))
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    # The gradient is a scatter. No two of its updates race, since no element is read twice.
    return lax.gather(values, start, numbers, sizes, unique_indices=True, mode=mode)


def _positions(keys: jax.Array, dim: int) -> jax.Array:
    """Returns the index along ``dim`` of each element."""
    sharding = jax.typeof(keys).sharding
    return lax.broadcasted_iota(jnp.int32, keys.shape, dim, out_sharding=sharding)


def reduced_shape(input: jax.Array, dim: int, keepdim: bool) -> tuple[int, ...]:
    """Returns the shape of ``input`` with length 1 along ``dim``, or without ``dim``."""
    shape = list(input.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    return tuple(shape)


def as_index(positions: jax.Array) -> jax.Array:
    """Converts positions to the dtype of indices: int64, or int32 where x64 is off."""
    return positions.astype(jnp.result_type(int))
