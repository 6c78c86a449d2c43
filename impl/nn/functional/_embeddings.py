"""The op ``embedding_bag``: sums, means or maxima of bags of rows of a table.

``_embedding_rows`` reads rows and has their gradients. This module assigns the elements of
the input to bags, and combines the rows of each bag. For rows ``[1, 2], [3, 4], [5, 6]``:

    input [0, 2, 1, 1], offsets [0, 2]      bags [0, 2] and [1, 1]
    mode "sum"                              [[6, 8], [6, 8]]
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.lax_functions import where
from impl._core.numerics import convert, fence, lowest
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn.functional import _embedding_rows
from impl.ops._indexing import accumulate, gather

#: Up to this many pairs of an offset and an index, each pair is compared.
_FEW_PAIRS = 1 << 14
_NAME = "embedding_bag"
#: The dtypes that PyTorch promotes to the other dtype of the two arrays of integers.
_PROMOTED = tuple(map(np.dtype, ("bool", "uint8", "int8", "int16", "int32", "int64")))
_OP = f"nn.functional.{_NAME}"


@eager.compiled
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
        RuntimeError: An index, an offset or ``padding_idx`` is out of range; offsets do not
            ascend; dtypes do not fit; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: Shapes do not fit, or ``mode`` is unknown.

    Source: ``torch.nn.functional.embedding_bag``. The spec's rows state what the mode does, and
    the guarantee.
    """
    input, offsets = _of_one_dtype(input, offsets)
    indices = arguments.index_array(_NAME, input, "input")
    weight = arguments.array(_NAME, "weight", weight)
    factors = _factors(per_sample_weights, indices, weight)
    if weight.ndim != 2:
        raise ValueError(f"{_NAME}(): weight has to be 2-D, but got shape {list(weight.shape)}")
    for name, value in (
        ("scale_grad_by_freq", scale_grad_by_freq),
        ("sparse", sparse),
        ("include_last_offset", include_last_offset),
    ):
        arguments.flag(_NAME, name, value)
    bags, count = _bags(indices, offsets, include_last_offset)
    _check_mode(mode, scale_grad_by_freq, sparse, factors is not None)
    if arguments.dtype_kind(weight.dtype) != "floating":
        raise RuntimeError(f"{_NAME}(): expected a weight of floats, but got {weight.dtype}")
    rows = weight.shape[0]
    of = f"a weight of {rows} rows"
    arguments.index_range(_NAME, input, rows, None, name="input", of=of)
    padding = _embedding_rows.padding_row(_NAME, padding_idx, rows, RuntimeError)
    facts = {**_embedding_rows.facts(_NAME, indices, weight, max_norm, norm_type), "mode": mode}
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    indices = indices.reshape(-1)
    in_bag = (bags >= 0) & (bags < count)
    if padding is not None:
        in_bag &= indices != padding
    contents = _Contents(
        weight=weight,
        indices=indices,
        rows=_embedding_rows.read(alert(weight, decision), indices, max_norm, norm_type),
        bags=where(in_bag, bags, count),
        count=count,
        in_bag=in_bag,
        divisors=_embedding_rows.frequencies(indices, rows) if scale_grad_by_freq else None,
        padding=padding,
        pullback=pullback,
    )
    out = _greatest(contents) if mode == "max" else _sums(contents, mode, factors)
    return convert(out, weight.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class _Contents:
    """The contents of all bags.

    Attributes:
        weight: The table.
        indices: The index of the row that each element of the input names: shape [n].
        rows: These rows, without a gradient, in the accumulator's dtype: shape [n, width].
        bags: The bag of each element, or ``count`` for an element in no bag: shape [n].
        count: The number of bags.
        in_bag: Whether each element is in a bag: shape [n].
        divisors: The divisor of the gradient of each row of the table, or None.
        padding: The row of the table that no bag contains.
        pullback: The decision of the gradient.
    """

    weight: jax.Array
    indices: jax.Array
    rows: jax.Array
    bags: jax.Array
    count: int
    in_bag: jax.Array
    divisors: jax.Array | None
    padding: int | None
    pullback: Decision

    def with_gradient(self, rows: jax.Array, indices: jax.Array) -> jax.Array:
        """Returns ``rows``, which are the table's rows at ``indices``, with their gradient."""
        return _embedding_rows.with_gradient(
            self.weight,
            rows,
            indices,
            divisors=self.divisors,
            padding=self.padding,
            pullback=self.pullback,
        )

    def combined(self, initial: Any, values: jax.Array, by: Any = "add") -> jax.Array:
        """Combines the values of each bag: from shape [n, ...] to [bags, ...]."""
        start = jnp.full((1, self.count, values.shape[1]), initial, values.dtype)
        destinations = self.bags[None, :, None]
        return accumulate(start, destinations, values[None], by=by)[0]


def _sums(contents: _Contents, mode: str, factors: jax.Array | None) -> jax.Array:
    in_bag = contents.in_bag[:, None]
    rows = contents.with_gradient(contents.rows, contents.indices)
    # Elements in no bag become 0 before the product, so that the gradient has no NaN from them.
    rows = where(in_bag, rows, 0)
    if factors is not None:
        wide = where(contents.in_bag, convert(factors, rows.dtype), 0)
        rows = alert_pullback(rows * wide[:, None], contents.pullback)
    total = contents.combined(0, rows)
    if mode == "sum":
        return total
    sizes = contents.combined(0, in_bag.astype(jnp.int32))
    # The fence holds in the gradient too. Without it, XLA would repeat the division for each
    # element that reads the quotient.
    return fence(total) / jnp.maximum(sizes, 1).astype(total.dtype)


def _greatest(contents: _Contents) -> jax.Array:
    rows, in_bag = contents.rows, contents.in_bag[:, None]
    n = rows.shape[0]
    if n == 0:
        return jnp.zeros((contents.count, rows.shape[1]), rows.dtype)
    greatest = contents.combined(lowest(rows.dtype), rows, "max")
    destinations = contents.bags[None, :, None]
    greatest = gather(greatest[None], destinations, pullback=contents.pullback)[0]
    equal = in_bag & ((rows == greatest) | (jnp.isnan(rows) & jnp.isnan(greatest)))
    position = where(equal, jnp.arange(n, dtype=jnp.int32)[:, None], n)
    first = contents.combined(n, position, "min")
    nonempty = first < n
    first = where(nonempty, first, 0)
    # A bag without elements reads no row of the table: its index is out of range.
    indices = where(nonempty, contents.indices[first], contents.weight.shape[0])
    values = jnp.take_along_axis(rows, first, axis=0)
    return where(nonempty, contents.with_gradient(values, indices), 0)


def _factors(per_sample_weights: Any, indices: jax.Array, weight: jax.Array) -> jax.Array | None:
    if per_sample_weights is None:
        return None
    factors = arguments.array(_NAME, "per_sample_weights", per_sample_weights)
    if factors.shape != indices.shape:
        raise ValueError(
            f"{_NAME}(): per_sample_weights ({list(factors.shape)}) must have the same shape as "
            f"the input ({list(indices.shape)})"
        )
    if factors.dtype != weight.dtype:
        raise RuntimeError(
            f"{_NAME}(): expected per_sample_weights to have the dtype of weight, but got "
            f"{factors.dtype} and {weight.dtype}; convert one of them"
        )
    return factors.reshape(-1)


def _check_mode(mode: Any, scale_grad_by_freq: bool, sparse: bool, has_factors: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{_NAME}(): mode has to be one of sum, mean or max, but got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            f"{_NAME}(): max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError(f"{_NAME}(): max mode does not support sparse weights")
    if mode != "sum" and has_factors:
        raise NotImplementedError(
            f"{_NAME}(): per_sample_weights is only supported for mode='sum', but got mode='{mode}'"
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
                f"{_NAME}(): if input is 2D, its rows are the bags, and offsets has to be None; "
                f"got {type(offsets).__name__}"
            )
        bag = jax.lax.broadcasted_iota(jnp.int32, indices.shape, 0)
        return bag.reshape(-1), indices.shape[0]
    if indices.ndim != 1:
        raise ValueError(
            f"{_NAME}(): input has to be 1D or 2D, but got shape {list(indices.shape)}"
        )
    if offsets is None:
        raise ValueError(f"{_NAME}(): offsets has to be a 1D array but got None")
    starts = arguments.index_array(_NAME, offsets, "offsets")
    if starts.ndim != 1:
        raise ValueError(
            f"{_NAME}(): offsets has to be a 1D array, but got shape {list(starts.shape)}"
        )
    _check_offsets(offsets, indices.shape[0], include_last)
    position = jnp.arange(indices.shape[0], dtype=starts.dtype)
    # Few pairs are compared without a loop, whose program is longer than all the rest.
    if starts.size * position.size <= _FEW_PAIRS:
        begins = jax.lax.expand_dims(starts, (1,)) <= jax.lax.expand_dims(position, (0,))
        begun = jax.lax.reduce(begins.astype(jnp.int32), np.int32(0), jax.lax.add, (0,))
    else:
        begun = jnp.searchsorted(starts, position, side="right").astype(jnp.int32)
    bag = begun - 1
    return bag, starts.shape[0] - include_last


def _check_offsets(offsets: Any, length: int, include_last: bool) -> None:
    if include_last and offsets.shape[0] == 0:
        raise RuntimeError(
            f"{_NAME}(): include_last_offset: number of offsets should be at least 1, but got 0"
        )
    eager.when_known(functools.partial(_check_starts, length=length), offsets)


def _check_starts(known: np.ndarray[Any, Any], *, length: int) -> None:
    if known.size == 0:
        return
    if known[0] != 0:
        raise RuntimeError(
            f"{_NAME}(): offsets[0] has to be 0, i.e. the first bag has to start from position "
            f"0. However, got {known[0]}"
        )
    descends = known[1:] < known[:-1]
    if descends.any():
        before = int(descends.argmax())
        raise RuntimeError(
            f"{_NAME}(): offsets must ascend, but got {known[before + 1]} after {known[before]}, "
            f"at position {before + 1}"
        )
    if known[-1] > length:
        raise RuntimeError(
            f"{_NAME}(): offsets[-1] can not be greater than input's length {length} but got "
            f"offsets[-1] of {known[-1]}"
        )
