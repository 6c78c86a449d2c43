"""The ops that pick elements along a dimension.

They are ``kthvalue``, ``median``, ``nanmedian``, ``mode``, ``topk``, ``sort`` and ``argsort``.
Each finds indices by a stable sort, and reads the elements there, so that gradients go to them. A
sort compares integers in the order of the elements: -0 equals 0, NaNs come last and are equal,
and subnormal numbers differ from 0 on every device::

    values   nan  1.0 -0.0  0.0     descending order   nan  1.0 -0.0  0.0
                                    indices              0    1    2    3
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d
from impl._core.float_order import extreme_keys, in_order, sort_keys
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence
from impl._core.partitioning import as_bits
from impl._mode import modes
from impl._mode.alert import alert
from impl._mode.decide import decide
from impl.ops._op import op


class Indexed(NamedTuple):
    """Elements, and the index of each along a dimension.

    Attributes:
        values: The elements.
        indices: Their indices.
    """

    values: jax.Array
    indices: jax.Array


@op("torch.kthvalue")
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> Indexed:
    """Returns the k-th smallest element along one dimension, and its index.

    Args:
        input: Any shape, integers or floats. NaNs are greater than every number, and -0 equals 0.
        k: From 1 to the length of ``dim``.
        dim: The dimension to reduce.
        keepdim: Whether ``dim`` stays, with length 1.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off); of
        equal elements the lowest index. The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: ``k`` is out of range.
    """
    input = _real("kthvalue", input)
    k = arguments.integer("kthvalue", "k", k)
    arguments.flags("kthvalue", keepdim=keepdim)
    values, dim = _lanes("kthvalue", input, dim, reduced=True)
    length = values.shape[dim]
    if not 1 <= k <= length:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {dim}: got {k}, allowed are "
            f"1 to {length}"
        )
    values = alert(values, decide("kthvalue", **arguments.facts(input)))
    index = _kth(values, dim, lambda keys: lax.slice_in_dim(keys, k - 1, k, axis=dim))
    return _indexed(values, index, dim, _reduced_shape(input, dim, keepdim))


@overload
def median(input: Array, dim: None = None) -> jax.Array: ...


@overload
def median(input: Array, dim: int, keepdim: bool = False) -> Indexed: ...


@op("torch.median")
def median(input: Array, dim: int | None = None, keepdim: bool = False) -> jax.Array | Indexed:
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
        TypeError: ``keepdim`` is True and ``dim`` is None.
    """
    return _median("median", _middle, input, dim, keepdim)


@overload
def nanmedian(input: Array, dim: None = None) -> jax.Array: ...


@overload
def nanmedian(input: Array, dim: int, keepdim: bool = False) -> Indexed: ...


@op("torch.nanmedian")
def nanmedian(input: Array, dim: int | None = None, keepdim: bool = False) -> jax.Array | Indexed:
    """Returns the median of the elements that are not NaN: of all, or along one dimension.

    If all elements are NaN, so is the median.

    Arguments, results and exceptions are as for ``median``.
    """
    return _median("nanmedian", _middle_number, input, dim, keepdim)


def _median(
    function: str, middle: _KeyOf, input: Array, dim: int | None, keepdim: bool
) -> jax.Array | Indexed:
    input = _real(function, input)
    arguments.flags(function, keepdim=keepdim)
    if dim is None and keepdim:
        raise TypeError(f"{function}(): argument 'dim' must be given where 'keepdim' is True")
    facts = arguments.facts(input, returns_indices=dim is not None)
    if dim is None:
        values = alert(input.reshape(-1), decide(function, **facts))
        if not input.size:
            return _of_empty(input.dtype)
        return _shared(values, _kth(values, 0, functools.partial(middle, values, 0))).reshape(())
    values, dim = _lanes(function, input, dim, reduced=True)
    values = alert(values, decide(function, **facts))
    index = _kth(values, dim, functools.partial(middle, values, dim))
    return _indexed(values, index, dim, _reduced_shape(input, dim, keepdim))


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
    return _selected(keys, jnp.maximum(count - 1, 0) // 2, dim)


def _of_empty(dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.full((), jnp.nan, dtype)
    # PyTorch converts NaN to an integer; this is the result on x86, by way of 32 or 64 bits.
    return jnp.full((), jnp.iinfo(dtype).min if dtype.itemsize >= 4 else 0, dtype)


@jax.custom_jvp
def _shared(values: jax.Array, index: jax.Array) -> jax.Array:
    """Returns the element at an index of one axis; its equals share its derivative."""
    return _selected(values, index, 0)


@_shared.defjvp
def _jvp(primals: Any, tangents: Any) -> Any:
    values, index = primals
    value = _shared(values, index)
    is_equal = sort_keys(values) == sort_keys(value)
    dots = convert(tangents[0], accumulator(values.dtype))
    total = jnp.where(is_equal, dots, 0).sum(keepdims=True)
    return value, convert(total / is_equal.sum(dtype=dots.dtype), values.dtype)


@op("torch.mode")
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> Indexed:
    """Returns the most frequent element along one dimension, and its index.

    If several elements are equally frequent, the result is the least of them. -0 equals 0, and a
    NaN equals no element.

    Args:
        input: Any shape, real numbers or bools.
        dim: The dimension to reduce.
        keepdim: Whether ``dim`` stays, with length 1.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off). The
        gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is complex.
    """
    input = _real("mode", input, bools=True)
    arguments.flags("mode", keepdim=keepdim)
    values, dim = _lanes("mode", input, dim, reduced=True)
    values = alert(values, decide("mode", **arguments.facts(input)))
    index = _most_frequent(values, dim)
    return _indexed(values, index, dim, _reduced_shape(input, dim, keepdim))


@op("torch.sort")
def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Indexed:
    """Sorts the elements along one dimension, and returns their indices too.

    NaNs are greater than every number, and -0 equals 0.

    Args:
        input: Any shape, real numbers or bools.
        dim: The dimension along which to sort.
        descending: Whether the greatest element comes first.
        stable: Accepted for compatibility with PyTorch: equal elements always keep their order,
            also if ``descending`` is True.

    Returns:
        Values of the shape and dtype of ``input``, and indices of int64 (int32 where x64 is off).
        The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``input`` is complex.
    """
    values, dim, index = _in_order("sort", input, dim, descending, stable)
    return _indexed(values, index, dim, np.shape(input))


@op("torch.argsort")
def argsort(
    input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> jax.Array:
    """Returns the indices that sort the elements along one dimension.

    Arguments, results and exceptions are as for ``sort``, without the values.
    """
    _, _, index = _in_order("argsort", input, dim, descending, stable)
    return _as_index(index).reshape(np.shape(input))


def _in_order(
    function: str, input: Array, dim: int, descending: bool, stable: bool
) -> tuple[jax.Array, int, jax.Array]:
    """Returns the values and the dimension as ``_lanes`` does, and the indices in sorted order."""
    input = _real(function, input, bools=True, error=RuntimeError)
    arguments.flags(function, descending=descending, stable=stable)
    values, dim = _lanes(function, input, dim, reduced=False)
    values = alert(values, decide(function, **arguments.facts(input)))
    return values, dim, _sorted_indices(values, dim, descending=descending)


@op("torch.topk")
def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Indexed:
    """Returns the ``k`` greatest or least elements along one dimension, and their indices.

    NaNs are greater than every number, and -0 equals 0.

    Args:
        input: Any shape, integers or floats.
        k: From 0 to the length of ``dim``.
        dim: The dimension along which elements are picked.
        largest: Whether to pick the greatest elements; otherwise the least.
        sorted: Accepted for compatibility with PyTorch: the result is always sorted, the greatest
            element first, or the least if ``largest`` is False.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off), with ``k``
        elements along ``dim``. The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``k`` is out of range; or ``input`` is of bools or complex numbers.
    """
    input = _real("topk", input, error=RuntimeError)
    k = arguments.integer("topk", "k", k)
    arguments.flags("topk", largest=largest, sorted=sorted)
    values, dim = _lanes("topk", input, dim, reduced=False)
    length = values.shape[dim]
    if not 0 <= k <= length:
        raise RuntimeError(
            f"topk(): selected index k out of range for dimension {dim}: got {k}, allowed are "
            f"0 to {length}"
        )
    values = alert(values, decide("topk", **arguments.facts(input)))
    # The result of a 0-d array is 0-d, also for k = 0.
    count = k if input.ndim else 1
    index = _first_in_order(values, count, dim, descending=largest)
    shape = (*input.shape[:dim], k, *input.shape[dim + 1 :]) if input.ndim else ()
    return _indexed(values, index, dim, shape)


def _real(
    function: str,
    input: Array,
    *,
    bools: bool = False,
    error: type[Exception] = NotImplementedError,
) -> jax.Array:
    """Returns ``input`` as a JAX array of real numbers, or of bools where an op accepts them."""
    input = arguments.array(function, "input", input)
    kinds = ("bool", "integer", "floating") if bools else ("integer", "floating")
    arguments.check_kind(function, input.dtype, *kinds, error=error)
    return input


def _lanes(function: str, input: jax.Array, dim: int, *, reduced: bool) -> tuple[jax.Array, int]:
    """Returns ``input`` with at least one dimension, and ``dim`` counted from the front.

    ``reduced`` is whether the op picks one element along ``dim``, which then must not be empty.
    """
    dim = arguments.dimension(dim, input.ndim, function)
    values = lanes(input, dim)
    if reduced and values.shape[dim] == 0:
        raise IndexError(f"{function}(): Expected reduction dim {dim} to have non-zero size.")
    return values, dim


def lanes(values: jax.Array, dim: int) -> jax.Array:
    """Returns values of one dimension at least, whose type is not sharded along ``dim``."""
    values = at_least_1d(values)
    spec = jax.typeof(values).sharding.spec
    if spec[dim] is None:  # XLA sorts and scans no axis that is cut over an explicit mesh.
        return values
    axes = [None if axis == dim else names for axis, names in enumerate(spec)]
    return jax.reshard(values, jax.P(*axes))  # type: ignore[no-any-return]


def _first_in_order(values: jax.Array, count: int, dim: int, *, descending: bool) -> jax.Array:
    """Returns the first ``count`` indices that ``argsort`` returns along ``dim``."""

    def by_sort(values: jax.Array) -> jax.Array:
        indices = _sorted_indices(values, dim, descending=descending)
        return lax.slice_in_dim(indices, 0, count, axis=dim)

    def by_heap(values: jax.Array) -> jax.Array:
        sign_bit, nan = np.int32(-(1 << 31)), np.int32((1 << 31) - 1)
        if jnp.issubdtype(values.dtype, jnp.integer) and values.dtype.itemsize == 4:
            bits = in_order(extreme_keys(1, values))
        else:
            bits = lax.bitcast_convert_type(values.astype(jnp.float32), jnp.int32)
            bits = where(values != values, nan, where(bits == sign_bit, 0, bits))  # noqa: PLR0124
        bits = bits if descending else bits ^ sign_bit
        # ``portable`` takes NaNs of both signs for equal, and finds the heap for integers.
        is_portable = modes.current().portable
        keys = in_order(bits) if is_portable else lax.bitcast_convert_type(bits, jnp.float32)
        # Fused with the transpose for another ``dim`` than the last, this takes twice as long.
        return lax.top_k(fence(keys), count, axis=dim)[1]

    if values.dtype.itemsize > 4:
        return by_sort(values)
    # XLA for a CPU compares the bits of float32, and takes the lowest index of equal ones. Its
    # top-k of other dtypes is a sort.
    index: jax.Array = lax.platform_dependent(values, cpu=by_heap, default=by_sort)
    return index


def _sorted_indices(values: jax.Array, dim: int, *, descending: bool) -> jax.Array:
    """Returns the indices along ``dim`` in sorted order, int32, of the shape of ``values``."""
    keys = sort_keys(values)
    keys = lax.bitwise_not(keys) if descending else keys
    operands = (keys, _positions(keys, dim))
    return lax.sort(operands, dimension=dim, is_stable=True, num_keys=1)[1]


def _most_frequent(values: jax.Array, dim: int) -> jax.Array:
    """Returns the first index of the least of the most frequent elements, as ``_kth`` does."""
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
    return _first_equal(keys, _selected(ordered, last, dim), dim)


def _kth(values: jax.Array, dim: int, key_of: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Returns the first index of an element of a given rank, int32, with length 1 along ``dim``.

    ``key_of`` takes the keys in ascending order, and returns one of them with length 1 there.
    """
    keys = sort_keys(values)
    # Equal keys are interchangeable, and XLA's stable sort of integers is the faster one on a CPU.
    return _first_equal(keys, key_of(lax.sort(keys, dimension=dim, is_stable=True)), dim)


def _first_equal(keys: jax.Array, key: jax.Array, dim: int) -> jax.Array:
    """Returns the first index along ``dim`` of a key, int32, with length 1 along ``dim``."""
    position = _positions(keys, dim)
    beyond = lax.full_like(position, keys.shape[dim])
    first = lax.reduce_min(lax.select(keys == key, position, beyond), (dim,))
    return lax.expand_dims(first, (dim,))


def _indexed(values: jax.Array, index: jax.Array, dim: int, shape: tuple[int, ...]) -> Indexed:
    """Returns the elements at distinct indices along ``dim``, and the indices, of a shape."""
    return Indexed(_selected(values, index, dim).reshape(shape), _as_index(index).reshape(shape))


def _selected(values: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    """Returns the elements at distinct indices along ``dim``; gradients go to these alone."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return _gather(values, index, dim)
    return _picked(values, index, dim)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _picked(values: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    # XLA adds zeros to elements that it reads from another device, and would lose the sign of -0.
    return as_bits(functools.partial(_gather, dim=dim))(values, index)  # type: ignore[no-any-return]


@_picked.defjvp
def _jvp_of_picked(dim: int, primals: Any, tangents: Any) -> Any:
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


def _reduced_shape(input: jax.Array, dim: int, keepdim: bool) -> tuple[int, ...]:
    """Returns the shape of ``input`` with length 1 along ``dim``, or without ``dim``."""
    shape = list(input.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    return tuple(shape)


def _as_index(positions: jax.Array) -> jax.Array:
    """Converts positions to the dtype of indices: int64, or int32 where x64 is off."""
    return positions.astype(jnp.result_type(int))
