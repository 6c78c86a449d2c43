"""Rows of an embedding table: the parts that ``embedding`` and ``embedding_bag`` share.

Rows are read with their norm bounded, and the gradient of the table adds up the cotangents of all
reads of a row. The sum is a scatter, the transpose of the gather that reads the rows. A bounded
norm is not differentiated, as in PyTorch::

    table               [3., 4.]    [1., 0.]   [0., 2.]
    index               0, 2, 0
    read, max_norm=1    [0.6, 0.8]  [0., 1.]   [0.6, 0.8]
    cotangents          [1., 1.]    [2., 2.]   [4., 4.]
    gradient            [5., 5.]    [0., 0.]   [2., 2.]       row 0 has 1 + 4
    ... divided         [2.5, 2.5]  [0., 0.]   [2., 2.]       by ``frequencies``, 2, 1 and 1
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import spec
from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence, lowest
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import Decision, decide_both
from impl._mode.modes import sum_dtype
from impl.ops._indexing import accumulate, counts, gather
from impl.ops._op import op

_BAG = "embedding_bag"


@op("torch.nn.functional.embedding")
def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> jax.Array:
    """Reads rows of a table.

    Args:
        input: Indices of rows, any shape, int32 or int64, each in [0, rows). Under ``jit``, where
            values are unknown, any other index reads NaN, or for other dtypes than floats the fill
            value of ``jax.numpy.take``; it has no gradient.
        weight: The table: shape [rows, width], any dtype.
        padding_idx: A row that has no derivative; negative ones count from the end.
        max_norm: The bound of norms. A row whose norm is greater is multiplied by ``max_norm /
            (norm + 1e-7)`` when it is read. The gradient leaves this factor out.
            ``weight`` stays as it is; PyTorch writes the scaled rows to it.
        norm_type: The order p of the norm: the p-th root of the sum of p-th powers of a row's
            elements, added exactly.
        scale_grad_by_freq: Whether to divide the derivative of each row by the number of times
            that ``input`` names it.
        sparse: Accepted as in PyTorch, without effect: gradients are dense.

    Returns:
        An array of the shape of ``input`` followed by [width], in the dtype of ``weight``. The
        gradient of a row is the sum of all its cotangents, divided afterwards. Forward derivatives
        omit ``padding_idx`` and divide as gradients do; PyTorch's do not.

    Raises:
        AssertionError: ``padding_idx`` is out of range.
        IndexError: An index is out of range.
        RuntimeError: ``input`` is not of int32 or int64, or ``weight`` is not 2-d; or ``max_norm``
            is given and ``weight`` is not of floats or complex numbers.
    """
    indices = arguments.index_array("embedding", input, "input")
    weight = arguments.array("embedding", "weight", weight)
    if weight.ndim != 2:
        raise RuntimeError(f"embedding(): 'weight' must be 2-D, but got shape {list(weight.shape)}")
    rows, width = weight.shape
    padding = padding_row("embedding", padding_idx, rows, AssertionError, empty=True)
    arguments.flags("embedding", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    facts = lookup_facts("embedding", indices, weight, max_norm, norm_type)
    of = f"a weight of {rows} rows"
    arguments.index_range("embedding", input, rows, None, IndexError, name="input", of=of)
    decision, pullback = decide_both("nn.functional.embedding", **facts)
    flat = indices.reshape(-1)
    read = read_rows(alert(weight, decision), flat, max_norm, norm_type)
    out = with_gradient(
        weight,
        convert(read, weight.dtype),
        flat,
        divisors=frequencies(flat, rows) if scale_grad_by_freq else None,
        padding=padding,
        pullback=pullback,
    )
    return out.reshape(*indices.shape, width)


#: Up to this many pairs of an offset and an index, each pair is compared.
_FEW_PAIRS = 1 << 14
#: The dtypes that PyTorch promotes to the other dtype of the two arrays of integers.
_PROMOTED = tuple(map(np.dtype, ("bool", "uint8", "int8", "int16", "int32", "int64")))


@op("torch.nn.functional.embedding_bag")
def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    max_norm: Any = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> jax.Array:
    """Computes sums, means or maxima of bags of rows of a table.

    A sum adds the rows of a bag in the order of ``input``. The gradient of a row of ``weight`` adds
    in the order of ``input`` for sums and means, and in the order of bags for maxima. The gradient
    of an element of ``per_sample_weights`` adds along its row. float16 and bfloat16 are computed in
    float32 and rounded once.

    Args:
        input: Indices of rows: shape [bags, n], or [n] with ``offsets``; int32 or int64, each in
            [0, rows). Under ``jit``, where values are unknown, any other index reads NaN and has
            no gradient. As in PyTorch, bools and integers of 8 or 16 bits are taken if
            ``offsets`` are int32 or int64, and the other way around.
        weight: The table: shape [rows, width], floats.
        offsets: The position in ``input`` at which each bag begins: shape [bags], ascending from
            0. Under ``jit`` they are not checked; elements before the first offset are in no bag.
        max_norm: As for ``embedding``.
        norm_type: As for ``embedding``.
        scale_grad_by_freq: As for ``embedding``; not for maxima.
        mode: ``"sum"``, ``"mean"`` or ``"max"``. The first of equal maxima has the gradient. NaN
            is greater than every number. (In PyTorch it is only if the bag begins with it.)
        sparse: Accepted as in PyTorch, without effect: gradients are dense.
        per_sample_weights: Factors of rows, only for sums: the shape of ``input``, in the dtype of
            ``weight``.
        include_last_offset: Whether ``offsets`` has one more element, the end of the last bag.
            Elements after it are in no bag.
        padding_idx: A row that no bag contains; negative ones count from the end.

    Returns:
        An array of shape [bags, width], in the dtype of ``weight``; 0 for a bag without elements.

    Raises:
        NotImplementedError: ``per_sample_weights`` are given, and ``mode`` is not ``"sum"``.
        RuntimeError: An index, an offset or ``padding_idx`` is out of range; offsets do not ascend;
            or dtypes do not fit.
        ValueError: Shapes do not fit, or ``mode`` is unknown.
    """
    input, offsets = _of_one_dtype(input, offsets)
    indices = arguments.index_array(_BAG, input, "input")
    weight = arguments.array(_BAG, "weight", weight)
    factors = _factors(per_sample_weights, indices, weight)
    if weight.ndim != 2:
        raise ValueError(f"{_BAG}(): weight has to be 2-D, but got shape {list(weight.shape)}")
    arguments.flags(_BAG, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    arguments.flags(_BAG, include_last_offset=include_last_offset)
    bags, count = _bags(indices, offsets, include_last_offset)
    _check_mode(mode, scale_grad_by_freq, sparse, factors is not None)
    if arguments.dtype_kind(weight.dtype) != "floating":
        raise RuntimeError(f"{_BAG}(): expected a weight of floats, but got {weight.dtype}")
    rows = weight.shape[0]
    of = f"a weight of {rows} rows"
    arguments.index_range(_BAG, input, rows, None, name="input", of=of)
    padding = padding_row(_BAG, padding_idx, rows, RuntimeError)
    facts = {**lookup_facts(_BAG, indices, weight, max_norm, norm_type), "mode": mode}
    decision, pullback = decide_both("nn.functional.embedding_bag", **facts)
    indices = indices.reshape(-1)
    in_bag = (bags >= 0) & (bags < count)
    if padding is not None:
        in_bag &= indices != padding
    divisors = frequencies(indices, rows) if scale_grad_by_freq else None
    attached = functools.partial(
        with_gradient, weight, divisors=divisors, padding=padding, pullback=pullback
    )
    contents = _Contents(
        indices=indices,
        rows=read_rows(alert(weight, decision), indices, max_norm, norm_type),
        bags=where(in_bag, bags, count),
        count=count,
        in_bag=in_bag,
        are_rows=input.ndim == 2,
        attached=attached,
        pullback=pullback,
    )
    out = _greatest(contents, rows) if mode == "max" else _sums(contents, mode, factors)
    return convert(out, weight.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class _Contents:
    """The contents of all bags, by the elements of the input."""

    indices: jax.Array  # [n], of the rows
    rows: jax.Array  # [n, width], without a gradient, in the accumulator's dtype
    bags: jax.Array  # [n], the bag of each element, or ``count`` for an element in no bag
    count: int  # of the bags
    in_bag: jax.Array  # [n]
    are_rows: bool  # whether all bags have as many elements, one bag after another
    #: Returns rows that were read at indices, with the gradient of the table.
    attached: Callable[[jax.Array, jax.Array], jax.Array]
    pullback: Decision

    def combined(self, initial: Any, values: jax.Array, by: Any = "add") -> jax.Array:
        """Combines the values of each bag: from shape [n, ...] to [bags, ...]."""
        start = jnp.full((1, self.count, values.shape[1]), initial, values.dtype)
        destinations = self.bags[None, :, None]
        return accumulate(start, destinations, values[None], by=by)[0]


def _sums(contents: _Contents, mode: str, factors: jax.Array | None) -> jax.Array:
    in_bag = contents.in_bag[:, None]
    rows = contents.attached(contents.rows, contents.indices)
    # Elements in no bag become 0 before the product, so that the gradient has no NaN from them.
    rows = where(in_bag, rows, 0)
    if factors is not None:
        wide = where(contents.in_bag, convert(factors, rows.dtype), 0)
        rows = alert_pullback(rows * wide[:, None], contents.pullback)
    total = contents.combined(0, rows)
    if mode == "sum":
        return total
    sizes = contents.combined(0, in_bag.astype(jnp.int32))
    return total / jnp.maximum(sizes, 1).astype(total.dtype)


def _greatest(contents: _Contents, past: int) -> jax.Array:
    rows = contents.rows
    n = rows.shape[0]
    if n == 0:
        return jnp.zeros((contents.count, rows.shape[1]), rows.dtype)
    first = (_first_of_rows if contents.are_rows else _first_of_bags)(contents)
    nonempty = first < n
    first = where(nonempty, first, 0)
    # A bag without elements reads no row of the table: its index is out of range.
    indices = where(nonempty, contents.indices[first], past)
    values = jnp.take_along_axis(rows, first, axis=0)
    return where(nonempty, contents.attached(values, indices), 0)


def _first_of_bags(contents: _Contents) -> jax.Array:
    """Returns the position of the greatest element of each bag, [bags, width]; n for no element."""
    rows, n = contents.rows, contents.rows.shape[0]
    greatest = contents.combined(lowest(rows.dtype), rows, "max")
    greatest = gather(greatest[None], contents.bags[None, :, None], pullback=Decision())[0]
    equal = (rows == greatest) | (jnp.isnan(rows) & jnp.isnan(greatest))
    position = where(contents.in_bag[:, None] & equal, jnp.arange(n, dtype=jnp.int32)[:, None], n)
    return contents.combined(n, position, "min")


def _first_of_rows(contents: _Contents) -> jax.Array:
    """Returns what ``_first_of_bags`` does, for bags of as many elements."""
    n, width = contents.rows.shape
    in_bag = contents.in_bag.reshape(contents.count, n // contents.count)
    rows = contents.rows.reshape(*in_bag.shape, width)
    inside = where(in_bag[..., None], rows, lowest(rows.dtype))
    chosen = jax.lax.argmax(inside, 1, jnp.int32)
    # An element in no bag is chosen only if all in the bag have the lowest value.
    lowest_first = jax.lax.argmax(in_bag, 1, jnp.int32)[:, None]
    chosen = where(jnp.take_along_axis(in_bag, chosen, axis=1), chosen, lowest_first)
    begins = jnp.arange(0, n, in_bag.shape[1], dtype=jnp.int32)[:, None]
    return where(in_bag.any(1, keepdims=True), begins + chosen, n)


def _factors(per_sample_weights: Any, indices: jax.Array, weight: jax.Array) -> jax.Array | None:
    if per_sample_weights is None:
        return None
    factors = arguments.array(_BAG, "per_sample_weights", per_sample_weights)
    if factors.shape != indices.shape:
        raise ValueError(
            f"{_BAG}(): per_sample_weights ({list(factors.shape)}) must have the same shape "
            f"as the input ({list(indices.shape)})"
        )
    if factors.dtype != weight.dtype:
        raise RuntimeError(
            f"{_BAG}(): expected per_sample_weights to have the dtype of weight, but got "
            f"{factors.dtype} and {weight.dtype}; convert one of them"
        )
    return factors.reshape(-1)


def _check_mode(mode: Any, scale_grad_by_freq: bool, sparse: bool, has_factors: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{_BAG}(): mode has to be one of sum, mean or max, but got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            f"{_BAG}(): max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError(f"{_BAG}(): max mode does not support sparse weights")
    if mode != "sum" and has_factors:
        raise NotImplementedError(
            f"{_BAG}(): per_sample_weights is only supported for mode='sum', but got mode='{mode}'"
        )


def _of_one_dtype(input: Any, offsets: Any) -> tuple[Any, Any]:
    """Converts indices and offsets to the wider of their dtypes, if PyTorch would do so."""
    first, second = (getattr(value, "dtype", None) for value in (input, offsets))
    if first == second or first not in _PROMOTED or second not in _PROMOTED:
        return input, offsets
    wide = np.promote_types(first, second)
    # NumPy's integers keep 64 bits where x64 is off, so that the check of their range sees them.
    of_jax = jax.dtypes.canonicalize_dtype(wide)
    first, second = (
        value.astype(wide if isinstance(value, np.ndarray) else of_jax)
        for value in (input, offsets)
    )
    return first, second


def _bags(indices: jax.Array, offsets: Any, include_last: bool) -> tuple[jax.Array, int]:
    """Returns the bag of each element of the flattened input, and the number of bags."""
    if indices.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"{_BAG}(): if input is 2D, its rows are the bags, and offsets has to be "
                f"None; got {type(offsets).__name__}"
            )
        bag = jax.lax.broadcasted_iota(jnp.int32, indices.shape, 0)
        return bag.reshape(-1), indices.shape[0]
    if indices.ndim != 1:
        raise ValueError(f"{_BAG}(): input has to be 1D or 2D, but got shape {list(indices.shape)}")
    if offsets is None:
        raise ValueError(f"{_BAG}(): offsets has to be a 1D array but got None")
    starts = arguments.index_array(_BAG, offsets, "offsets")
    if starts.ndim != 1:
        raise ValueError(
            f"{_BAG}(): offsets has to be a 1D array, but got shape {list(starts.shape)}"
        )
    if include_last and starts.shape[0] == 0:
        raise RuntimeError(
            f"{_BAG}(): include_last_offset: number of offsets should be at least 1, but got 0"
        )
    eager.when_known(functools.partial(_check_starts, length=indices.shape[0]), offsets)
    position = jnp.arange(indices.shape[0], dtype=starts.dtype)
    # Few pairs are compared without a loop, whose program is longer than all the rest.
    method = "compare_all" if starts.size * position.size <= _FEW_PAIRS else "scan"
    begun = jnp.searchsorted(starts, position, side="right", method=method)
    return begun.astype(jnp.int32) - 1, starts.shape[0] - include_last


def _check_starts(known: np.ndarray[Any, Any], *, length: int) -> None:
    if known.size == 0:
        return
    if known[0] != 0:
        raise RuntimeError(
            f"{_BAG}(): offsets[0] has to be 0, i.e. the first bag has to start from "
            f"position 0. However, got {known[0]}"
        )
    descends = known[1:] < known[:-1]
    if descends.any():
        before = int(descends.argmax())
        raise RuntimeError(
            f"{_BAG}(): offsets must ascend, but got {known[before + 1]} after "
            f"{known[before]}, at position {before + 1}"
        )
    if known[-1] > length:
        raise RuntimeError(
            f"{_BAG}(): offsets[-1] can not be greater than input's length {length} but got "
            f"offsets[-1] of {known[-1]}"
        )


#: Values of ``norm_type`` for which a norm needs no powers but squares.
_WITHOUT_POWERS = (0.0, 1.0, 2.0, math.inf, -math.inf)
#: PyTorch adds this to a norm before it divides by it.
_EPSILON = 1e-7


def lookup_facts(
    function: str, input: jax.Array, weight: jax.Array, max_norm: Any, norm_type: Any
) -> dict[str, spec.FactValue]:
    """Returns the facts of a lookup, after it has checked ``max_norm`` and ``norm_type``."""
    norm_order = arguments.real(function, "norm_type", norm_type)
    if max_norm is not None:
        arguments.number(function, "max_norm", max_norm)
        if jnp.iscomplexobj(max_norm):
            raise TypeError(f"{function}(): argument 'max_norm' must be float, not complex")
        if not jnp.issubdtype(weight.dtype, jnp.inexact):
            raise RuntimeError(
                f"{function}(): argument 'max_norm' needs a weight of floats or complex numbers, "
                f"but got {weight.dtype}"
            )
    return {
        "dtype": arguments.dtype_kind(weight.dtype),
        "input_ndim": input.ndim,
        "max_norm": max_norm is not None,
        "power_norm": norm_order not in _WITHOUT_POWERS,
    }


def padding_row(
    function: str, padding_idx: Any, rows: int, error: type[Exception], *, empty: bool = False
) -> int | None:
    """Returns the row that ``padding_idx`` names, counted from the front; None for no row.

    ``error`` is the exception that PyTorch raises, and ``empty`` whether 0 is allowed without rows.
    """
    if padding_idx is None:
        return None
    row = arguments.integer(function, "padding_idx", padding_idx)
    if not -rows <= row < rows and not (empty and row == 0):
        raise error(
            f"{function}(): padding_idx must be within the number of embeddings, {-rows} through "
            f"{rows - 1}, but got {row}"
        )
    return row % rows if rows else None


def read_rows(weight: jax.Array, index: jax.Array, max_norm: Any, norm_type: float) -> jax.Array:
    """Reads rows of a table, scaled to norm ``max_norm`` if theirs is above; without a gradient.

    An index outside [0, rows) reads NaN. The result has the accumulator's dtype, [n, width].
    """
    weight = jax.lax.stop_gradient(weight)
    rows = gather(weight[None], index[None, :, None], pullback=Decision())[0]
    if jnp.issubdtype(rows.dtype, jnp.inexact):
        rows = convert(rows, accumulator(rows.dtype))
    if max_norm is None:
        return rows
    norm = _norm(rows, float(norm_type))
    bound = jnp.asarray(jax.lax.stop_gradient(max_norm), norm.dtype)
    # Without the fence, XLA repeats the division for each element of a row.
    scale = fence(bound / (norm + _EPSILON))
    over = (norm > bound)[:, None]
    return where(over, rows * scale[:, None], rows)


def _norm(rows: jax.Array, order: float) -> jax.Array:
    """Returns the norm of each row, a real number."""
    if jnp.iscomplexobj(rows):
        real, imag = rows.real, rows.imag
        size = jnp.sqrt(real * real + imag * imag)
    else:
        size = jnp.abs(rows)
    if order == 0:
        return (size != 0).sum(1, dtype=jnp.int32).astype(size.dtype)
    if math.isinf(order):
        return size.max(1, initial=0) if order > 0 else size.min(1, initial=jnp.inf)
    if order not in _WITHOUT_POWERS:
        return jnp.sum(size**order, 1) ** (1 / order)
    total = jnp.sum(size * size if order == 2 else size, 1)
    return jnp.sqrt(total) if order == 2 else total


def frequencies(index: jax.Array, rows: int) -> jax.Array:
    """Returns how often ``index`` reads each row, but at least 1: int32, shape [rows]."""
    return jnp.maximum(counts(rows, index[None, :, None]).reshape(rows), 1)


def with_gradient(
    weight: jax.Array,
    values: jax.Array,
    index: jax.Array,
    *,
    divisors: jax.Array | None,
    padding: int | None,
    pullback: Decision,
) -> jax.Array:
    """Returns ``values`` with the derivative of the rows of ``weight`` that they were read from.

    ``index`` is the row of each value, [n], or of each element, [n, width]. The gradient is a sum
    in the dtype of ``values``; with ``divisors``, [rows], it is a sum in the accumulator's dtype,
    which is divided and rounded. The row ``padding`` has no derivative.
    """
    if not jnp.issubdtype(weight.dtype, jnp.inexact):
        return values
    index = index[None, :, None] if index.ndim == 1 else index[None]
    return _with_gradient(weight, values, index, divisors, padding, pullback)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _with_gradient(
    weight: jax.Array,
    values: jax.Array,
    index: jax.Array,
    divisors: jax.Array | None,
    padding: int | None,
    pullback: Decision,
) -> jax.Array:
    del weight, index, divisors, padding, pullback
    return values


@_with_gradient.defjvp
def _jvp(padding: int | None, pullback: Decision, primals: Any, tangents: Any) -> Any:
    weight, values, index, divisors = primals
    dtype = sum_dtype(values.dtype) if divisors is None else accumulator(weight.dtype)
    # The transpose of this divides the gradient of the table, and rounds it.
    table_dot = convert(tangents[0], dtype)
    if divisors is not None:
        table_dot /= divisors.astype(table_dot.dtype)[:, None]
    if padding is not None:
        table_dot = where(jnp.arange(weight.shape[0])[:, None] == padding, 0, table_dot)
    # Through this function again, so that the primal result can be differentiated a second time.
    values = _with_gradient(*primals, padding, pullback)
    return values, convert(gather(table_dot[None], index, pullback=pullback)[0], values.dtype)
