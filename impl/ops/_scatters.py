"""The ops that write to an array at indices along one dimension, or add to it.

These are ``index_add``, ``index_copy``, ``index_fill``, ``put``, ``scatter``, ``scatter_add`` and
``scatter_reduce``. The index of the last three has as many dimensions as the input. It may be
shorter than the input in every dimension but ``dim``. Only this corner of the input can change, so
the primitives get the corner alone::

    input [4, 6], dim 0, index [7, 2]       scatters into input[:, :2]
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d, corner_slices, three_axes, wrapped
from impl._core.numerics import accumulator, convert, isolate, product
from impl._jax.linear import with_transpose
from impl._kernels.launch import ReductionName
from impl._mode.alert import alert
from impl._mode.decide import Decision, decide
from impl.ops import _indexing
from impl.ops._op import op
from impl.ops._reductions import BY, check_dtype, reduced, refuse_complex_product


@op("torch.index_add")
def index_add(
    input: Array,
    dim: int,
    index: Array,
    source: Array,
    *,
    alpha: Any = 1,
    unique_indices: bool = False,
) -> jax.Array:
    """Adds the slices of ``alpha * source`` to slices of ``input`` along one dimension.

    Args:
        input: Shape [..., size, ...], any dtype.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` an update whose
            index is out of range is dropped.
        source: Shape [..., n, ...], of the dtype of ``input``; its other lengths equal
            ``input``'s.
        alpha: A number. Products are rounded to the dtype of ``source`` before they are added.
        unique_indices: Promises that no index occurs twice, so that the order does not matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range, or ``index`` has more than one dimension.
        RuntimeError: An index is out of range; or shapes or dtypes do not fit.
    """
    input = arguments.array("index_add", "input", input)
    source = arguments.array("index_add", "source", source)
    dim, flat = _indexing.index_of_slices("index_add", input, dim, index, RuntimeError)
    arguments.source_slices("index_add", input, dim, flat.shape[0], source)
    if not arguments.is_one(arguments.number("index_add", "alpha", alpha)):
        source = _scaled(source, jnp.asarray(alpha))
    arguments.flags("index_add", unique_indices=unique_indices)
    decision = decide("index_add", **arguments.facts(input, unique_indices=unique_indices))
    operands = alert(input, decision), dim, flat, source
    return _indexing.into_slices(_indexing.accumulate, *operands, unique=unique_indices)


def _scaled(source: jax.Array, alpha: jax.Array) -> jax.Array:
    if jnp.iscomplexobj(alpha) and not jnp.iscomplexobj(source):
        raise RuntimeError(
            f"index_add(): argument 'alpha' got a complex number, which {source.dtype} cannot "
            "hold; pass a real one"
        )
    wide = accumulator(source.dtype)
    return convert(product(convert(source, wide), alpha.astype(wide)), source.dtype)


@op("torch.index_copy")
def index_copy(
    input: Array, dim: int, index: Array, source: Array, *, unique_indices: bool = False
) -> jax.Array:
    """Writes the slices of ``source`` to slices of ``input`` along one dimension.

    If several slices are written to one index, one of them stays. The gradient at that index goes
    to the slice that stays; the other slices have a gradient of 0. (In PyTorch the gradient goes to
    each of them.)

    Arguments, results and exceptions are as for ``index_add``, with these differences: a 0-d
    ``source`` counts as one of a single element; and an index that is out of range, or a number of
    dimensions or of slices that does not fit, raises an IndexError.
    """
    input = arguments.array("index_copy", "input", input)
    source = arguments.array("index_copy", "source", source)
    dim, flat = _indexing.index_of_slices("index_copy", input, dim, index)
    _check_slices(input, dim, flat.shape[0], source)
    arguments.flags("index_copy", unique_indices=unique_indices)
    decision = decide("index_copy", **arguments.facts(input, unique_indices=unique_indices))
    operands = alert(input, decision), dim, flat, source
    return _indexing.into_slices(_indexing.assign, *operands, unique=unique_indices)


def _check_slices(input: jax.Array, dim: int, count: int, source: jax.Array) -> None:
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"index_copy(): input and source expected to have the same dtype, but got "
            f"{input.dtype} and {source.dtype}; convert one of them"
        )
    if source.ndim == 0 and count != 1:
        raise IndexError(
            f"index_copy(): When source is scalar, index should have one element (got {count})"
        )
    if source.ndim and input.ndim and source.ndim != input.ndim:
        raise IndexError(
            "index_copy(): When source and input are not scalars, their dimensionality must "
            f"match. Got input.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    rest = [list(a.shape[:dim] + a.shape[dim + 1 :]) for a in (input, source)]
    if rest[0] != rest[1]:
        raise RuntimeError(
            "index_copy(): input and source must have same slice shapes, excluding dimension "
            f"{dim}. Got input.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    if source.ndim and source.shape[dim] != count:
        raise IndexError(
            f"index_copy(): Number of indices ({count}) should be equal to source.shape[dim] "
            f"({source.shape[dim]})"
        )


@op("torch.index_fill")
def index_fill(input: Array, dim: int, index: Array, value: Any) -> jax.Array:
    """Writes a number to slices of ``input`` along one dimension.

    Args:
        input: Shape [..., size, ...], any dtype.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [-size, size). Negative indices count from
            the end. Under ``jit`` an index that is out of range writes nothing.
        value: A number or a 0-d array, which the dtype of ``input`` can hold.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` or an index is out of range, or ``index`` has more than one dimension.
        RuntimeError: ``index`` is of another dtype, or the dtype of ``input`` cannot hold
            ``value``.
    """
    input = arguments.array("index_fill", "input", input)
    dim, flat = _indexing.index_of_slices("index_fill", input, dim, index, wrap=True)
    number = arguments.number_as("index_fill", "value", value, input.dtype)
    decision = decide("index_fill", **arguments.facts(input))
    out = _filled(
        three_axes(alert(input, decision), dim),
        wrapped(flat, input.shape[dim] if input.ndim else 1)[None, :, None],
        jnp.broadcast_to(number, (1, 1, 1)),
    )
    return out.reshape(input.shape)


@op("torch.Tensor.put_")
def put(
    input: Array,
    index: Array,
    source: Array,
    accumulate: bool = False,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes elements to ``input`` at indices that count in row-major order, or adds them.

    Args:
        input: Any shape and dtype.
        index: Any shape, int32 or int64, each in [-n, n) for the n elements of ``input``.
            Negative indices count from the end. Under ``jit`` an update whose index is out of range
            is dropped.
        source: Of the dtype of ``input``, with as many elements as ``index``, in any shape.
        accumulate: Whether to add instead of to write. Without it, if several elements are written
            to one index, one stays: the last, if the mode keeps an order. The gradient at that
            index goes to the element that stays.
        unique_indices: Promises that no index occurs twice, so that the order does not matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: An index is out of range; or ``source`` and ``index`` differ in their number of
            elements.
        NotImplementedError: ``input`` has more elements than 32 bits can count, and x64 is off.
        RuntimeError: ``index`` is not of int32 or int64; or ``source`` is of another dtype.
    """
    input = arguments.array("put", "input", input)
    source = arguments.array("put", "source", source)
    indices = arguments.index_array("put", index)
    arguments.flags("put", accumulate=accumulate, unique_indices=unique_indices)
    arguments.same_dtype("put", input, source=source)
    if indices.size != source.size:
        raise IndexError(
            f"put(): Expected source and index to have the same number of elements, but got "
            f"{source.size} and {indices.size}"
        )
    arguments.index_range("put", index, input.size, None, IndexError, wrap=True)
    facts = arguments.facts(input, accumulate=accumulate, unique_indices=unique_indices)
    decision = decide("put", **facts)
    write = _indexing.accumulate if accumulate else _indexing.assign
    out = write(
        alert(input, decision).reshape(1, -1, 1),
        wrapped(indices, input.size).reshape(1, -1, 1),
        source.reshape(1, -1, 1),
        unique=unique_indices,
    )
    return out.reshape(input.shape)


_BY: Mapping[str, ReductionName] = MappingProxyType({"add": "add", "multiply": "mul"})


@op("torch.scatter")
def scatter(
    input: Array,
    dim: int,
    index: Array,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes the elements of ``src`` to ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] = src[i, j, k]``.

    If several elements are written to one index, one of them stays. The gradient at that index goes
    to the element that stays; the other elements have a gradient of 0. (In PyTorch the gradient
    goes to each of them.)

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, each value in [0, input.shape[dim]). It has as many dimensions as
            ``input`` and ``src``; it is not larger than ``src``, and may be larger than ``input``
            along ``dim`` only; or it is empty. Under ``jit`` an update whose index is out of range
            is dropped.
        src: An array of the dtype of ``input``, whose elements beyond the shape of ``index`` are
            not used; or a number that the dtype of ``input`` can hold.
        value: A number or a 0-d array, given instead of ``src``.
        reduce: None to write; "add" or "multiply" to combine with the element of ``input``. These
            can be differentiated (in PyTorch they cannot).
        unique_indices: Promises that no element is written twice, so that the order does not
            matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``reduce`` is "multiply" and ``input`` is complex.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; or ``reduce`` is
            another string.
        TypeError: ``src`` and ``value`` are both given or both missing.
    """
    input = arguments.array("scatter", "input", input)
    dim = arguments.dimension(dim, input.ndim, "scatter")
    if (src is None) == (value is None):
        raise TypeError(
            f"scatter(): expected one of 'src' (an array or a number) and 'value' (a number), but "
            f"got {'neither' if src is None else 'both'}"
        )
    if reduce is not None:
        arguments.choice("scatter", "reduce", reduce, tuple(_BY))
    if reduce == "multiply":
        refuse_complex_product("scatter", input.dtype)
    arguments.flags("scatter", unique_indices=unique_indices)
    is_array = value is None and not isinstance(src, numbers.Number)
    if is_array:
        source = arguments.array("scatter", "src", src)
    else:
        name, number = ("src", src) if value is None else ("value", value)
        scalar = arguments.number_as("scatter", name, number, input.dtype)
        source = jnp.broadcast_to(scalar, arguments.index_array("scatter", index).shape)
    facts = arguments.facts(input, src_is_array=is_array, unique_indices=unique_indices)
    decision = decide("scatter", **facts, reduce=reduce or "none")
    combine: _Combine = functools.partial(_indexing.assign, unique=unique_indices)
    if reduce is not None:
        combine = functools.partial(_indexing.accumulate, by=_BY[reduce], unique=unique_indices)
    elif not is_array:
        combine = _filled
    return _scattered("scatter", input, dim, index, source, combine=combine, decision=decision)


def _filled(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Writes one number, the same in all updates, wherever an index occurs.

    The indices may have one row and one lane for all rows and lanes of the operand.
    """
    number = jnp.broadcast_to(updates[:1, :1, :1], operand.shape)
    if jnp.issubdtype(number.dtype, jnp.inexact):
        # The gradient of the number is a sum, which must not contract a product of the program.
        number = with_transpose(lambda value: value, isolate, number)
    return jnp.where(_indexing.counts(operand.shape[1], indices) > 0, number, operand)


@op("torch.scatter_add")
def scatter_add(
    input: Array, dim: int, index: Array, src: Array, *, unique_indices: bool = False
) -> jax.Array:
    """Adds the elements of ``src`` to ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] += src[i, j, k]``.

    Arguments, results and exceptions are as for ``scatter``, but ``src`` is an array.
    """
    input = arguments.array("scatter_add", "input", input)
    src = arguments.array("scatter_add", "src", src)
    dim = arguments.dimension(dim, input.ndim, "scatter_add")
    arguments.flags("scatter_add", unique_indices=unique_indices)
    decision = decide("scatter_add", **arguments.facts(input, unique_indices=unique_indices))
    add = functools.partial(_indexing.accumulate, unique=unique_indices)
    return _scattered("scatter_add", input, dim, index, src, combine=add, decision=decision)


@op("torch.scatter_reduce")
def scatter_reduce(
    input: Array,
    dim: int,
    index: Array,
    src: Array,
    reduce: str,
    *,
    include_self: bool = True,
    unique_indices: bool = False,
) -> jax.Array:
    """Reduces the elements of ``src`` into ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0`` and a sum: ``out[index[i, j, k], j, k] += src[i, j, k]``.
    Elements of ``input`` whose index does not occur in ``index`` keep their bits.

    Arguments, results and exceptions are as for ``scatter``, with these differences:

    - ``src`` is an array.
    - ``reduce`` is "sum", "prod", "mean", "amax" or "amin". Means, NaN, and gradients of maxima and
      minima are as for ``index_reduce``.
    - ``include_self`` is whether the elements of ``input`` take part in the reduction.
    - A reduction that is not defined for the dtype raises a NotImplementedError: a mean of bools,
      and products, maxima and minima of complex numbers.
    """
    input = arguments.array("scatter_reduce", "input", input)
    src = arguments.array("scatter_reduce", "src", src)
    dim = arguments.dimension(dim, input.ndim, "scatter_reduce")
    arguments.choice("scatter_reduce", "reduce", reduce, tuple(BY))
    arguments.flags("scatter_reduce", include_self=include_self, unique_indices=unique_indices)
    check_dtype("scatter_reduce", reduce, input.dtype)
    facts = arguments.facts(input, reduce=reduce, unique_indices=unique_indices)
    decision = decide("scatter_reduce", **facts)
    combine = functools.partial(
        reduced, reduce=reduce, include_self=include_self, unique=unique_indices
    )
    return _scattered("scatter_reduce", input, dim, index, src, combine=combine, decision=decision)


#: Combines an operand with updates at indices, each of three axes; returns the new operand.
_Combine = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def _scattered(
    function: str,
    input: jax.Array,
    dim: int,
    index: Array,
    src: jax.Array,
    *,
    combine: _Combine,
    decision: Decision,
) -> jax.Array:
    """Combines ``src`` with the corner of ``input`` that ``index`` spans.

    ``dim`` counts from the front, ``index`` is as the user gave it, and the alert of ``decision``
    is given after the arguments are checked.
    """
    indices = arguments.index_array(function, index)
    if input.dtype != src.dtype:
        raise RuntimeError(
            f"{function}(): Expected input.dtype to be equal to src.dtype, but got {input.dtype} "
            f"and {src.dtype}; convert one of them"
        )
    if indices.size == 0:
        return alert(input, decision)
    # PyTorch takes a 0-d array for an array of one element, and the reverse.
    shape, input = input.shape, at_least_1d(input)
    indices, src = at_least_1d(indices), at_least_1d(src)
    arguments.same_ndim(function, indices, input=input, src=src)
    arguments.no_larger(function, indices, dim, input, but_along_dim=True)
    arguments.no_larger(function, indices, dim, src, but_along_dim=False, name="src")
    arguments.index_range(function, index, input.shape[dim], dim)
    input = alert(input, decision)
    corner = input[corner_slices(indices.shape, dim)]
    updates = src[tuple(map(slice, indices.shape))]
    out = combine(three_axes(corner, dim), three_axes(indices, dim), three_axes(updates, dim))
    out = out.reshape(corner.shape)
    if corner.shape != input.shape:
        out = input.at[corner_slices(indices.shape, dim)].set(out)
    return out.reshape(shape)
