"""impl.nn.functional.embedding_bag."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, embedding_rows
from impl._core.arguments import Array
from impl._core.numerics import convert, fence
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert
from impl._primitives.arithmetic import divide, multiply
from impl._primitives.gather import gather
from impl._primitives.scatter_accumulate import scatter_accumulate

_NAME = "embedding_bag"
_OP = f"nn.functional.{_NAME}"


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
    """Sums, means or maxima of bags of rows of a table.

    A sum adds up in the order of ``input``; so does the gradient of a row of ``weight``, over
    elements of ``input`` for sums and means, and over bags for maxima. The gradient of an element
    of ``per_sample_weights`` adds up along its row. float16 and bfloat16 are computed in float32
    and rounded once.

    Args:
        input: Shape [bags, n], or [n] with ``offsets``; int32 or int64, each in [0, rows). Under
            ``jit`` others read NaN, and have no gradient.
        weight: Shape [rows, width], floats.
        offsets: Where each bag begins in ``input``: ascending from 0, shape [bags]. Under ``jit``
            they are not checked, and what is before the first one is in no bag.
        max_norm: As for ``embedding``.
        norm_type: As for ``embedding``.
        scale_grad_by_freq: As for ``embedding``; not for maxima.
        mode: ``sum``, ``mean`` or ``max``. Of equal maxima the first has the gradient; NaN is
            above every number. (PyTorch finds a NaN only where a bag begins with it.)
        sparse: Taken for PyTorch's sake; gradients are dense here.
        per_sample_weights: What to multiply rows by before they are added, of the shape of
            ``input`` and the dtype of ``weight``; for sums alone.
        include_last_offset: Whether ``offsets`` has one more element, where the last bag ends;
            what follows it is in no bag.
        padding_idx: A row that counts for nothing, counted from the end where negative.

    Returns:
        Shape [bags, width], dtype of ``weight``; 0 for a bag without elements.

    Raises:
        NotImplementedError: ``per_sample_weights`` are given, and ``mode`` is not ``sum``.
        RuntimeError: An index, an offset or ``padding_idx`` is out of range; offsets do not
            ascend; dtypes do not fit; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: Shapes do not fit, or ``mode`` is another one.

    Source: ``torch.nn.functional.embedding_bag``. What the mode does, and the guarantee, are in
    the spec's rows.
    """
    places = arguments.index_array(_NAME, input, "input")
    weight = arguments.array(_NAME, "weight", weight)
    samples = _samples(per_sample_weights, places, weight)
    if weight.ndim != 2:
        raise ValueError(f"{_NAME}(): weight has to be 2-D, but got shape {list(weight.shape)}")
    for name, value in (
        ("scale_grad_by_freq", scale_grad_by_freq),
        ("sparse", sparse),
        ("include_last_offset", include_last_offset),
    ):
        arguments.flag(_NAME, name, value)
    bags, count = _bags(places, offsets, include_last_offset)
    _check_mode(mode, scale_grad_by_freq, sparse, samples is not None)
    if arguments.dtype_kind(weight.dtype) != "floating":
        raise RuntimeError(f"{_NAME}(): expected a weight of floats, but got {weight.dtype}")
    rows = weight.shape[0]
    of = f"a weight of {rows} rows"
    arguments.index_range(_NAME, input, rows, None, name="input", of=of)
    padding = embedding_rows.padding_row(_NAME, padding_idx, rows, RuntimeError)
    facts = {**embedding_rows.facts(_NAME, places, weight, max_norm, norm_type), "mode": mode}
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    places = places.reshape(-1)
    kept = (bags >= 0) & (bags < count)
    if padding is not None:
        kept &= places != padding
    read = embedding_rows.read(
        alert(weight, decision), places, max_norm, norm_type, decision=decision
    )
    contents = _Contents(
        weight=weight,
        places=places,
        rows=read,
        bags=jnp.where(kept, bags, count),
        count=count,
        kept=kept,
        shares=embedding_rows.frequencies(places, rows, decision=pullback)
        if scale_grad_by_freq
        else None,
        padding=padding,
        decision=decision,
        pullback=pullback,
    )
    out = _greatest(contents) if mode == "max" else _sums(contents, mode, samples)
    return convert(out, weight.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class _Contents:
    """What the bags hold.

    Attributes:
        weight: The table.
        places: Rows of it, shape [n].
        rows: These rows, without a gradient, in the accumulator's dtype.
        bags: The bag of each, or ``count`` for none.
        count: Number of bags.
        kept: Which are in a bag.
        shares: What to divide gradients of rows of the table by, if by anything.
        padding: The row of the table that counts for nothing.
        decision: That of the forward pass.
        pullback: That of differentiating it.
    """

    weight: jax.Array
    places: jax.Array
    rows: jax.Array
    bags: jax.Array
    count: int
    kept: jax.Array
    shares: jax.Array | None
    padding: int | None
    decision: Decision
    pullback: Decision

    def learned(self, rows: jax.Array, places: jax.Array) -> jax.Array:
        """``rows``, which are those of the table at ``places``, with their gradient."""
        return embedding_rows.with_gradient(
            self.weight,
            rows,
            places,
            divisors=self.shares,
            padding=self.padding,
            pullback=self.pullback,
        )

    def fold(self, initial: Any, values: jax.Array, by: Any = "add") -> jax.Array:
        """Values of all places, [n, ...], combined by bag."""
        start = jnp.full((1, self.count, values.shape[1]), initial, values.dtype)
        home = self.bags[None, :, None]
        folded = scatter_accumulate(start, home, values[None], decision=self.decision, by=by)
        return folded[0]


def _sums(contents: _Contents, mode: str, samples: jax.Array | None) -> jax.Array:
    kept = contents.kept[:, None]
    # What is in no bag is 0 before it is multiplied, so that no NaN comes of it in the gradient.
    rows = jnp.where(kept, contents.learned(contents.rows, contents.places), 0)
    if samples is not None:
        wide = jnp.where(contents.kept, convert(samples, rows.dtype), 0)
        # Spread by reading it again and again, since the gradient of that adds up in order.
        again = jnp.zeros((1, rows.shape[1], 1), jnp.int32)
        spread = gather(wide[:, None, None], again, pullback=contents.pullback)[:, :, 0]
        rows = multiply(rows, spread)
    total = contents.fold(0, rows)
    if mode == "sum":
        return total
    sizes = contents.fold(0, kept.astype(jnp.int32))
    # Fenced in the gradient as well, or XLA divides again for each element that reads a quotient.
    return divide(fence(total), jnp.maximum(sizes, 1).astype(total.dtype))


def _greatest(contents: _Contents) -> jax.Array:
    rows, kept = contents.rows, contents.kept[:, None]
    n = rows.shape[0]
    if n == 0:
        return jnp.zeros((contents.count, rows.shape[1]), rows.dtype)
    most = contents.fold(-jnp.inf, rows, "max")
    home = contents.bags[None, :, None]
    most = gather(most[None], home, pullback=contents.pullback)[0]
    equal = kept & ((rows == most) | (jnp.isnan(rows) & jnp.isnan(most)))
    position = jnp.where(equal, jnp.arange(n, dtype=jnp.int32)[:, None], n)
    first = contents.fold(n, position, "min")
    found = first < n
    at = jnp.where(found, first, 0)
    # A bag without elements has none of the table's rows.
    places = jnp.where(found, contents.places[at], contents.weight.shape[0])
    values = jnp.take_along_axis(rows, at, axis=0)
    return jnp.where(found, contents.learned(values, places), 0)


def _samples(given: Any, places: jax.Array, weight: jax.Array) -> jax.Array | None:
    if given is None:
        return None
    samples = arguments.array(_NAME, "per_sample_weights", given)
    if samples.shape != places.shape:
        raise ValueError(
            f"{_NAME}(): per_sample_weights ({list(samples.shape)}) must have the same shape as "
            f"the input ({list(places.shape)})"
        )
    if samples.dtype != weight.dtype:
        raise RuntimeError(
            f"{_NAME}(): expected per_sample_weights to have the dtype of weight, but got "
            f"{samples.dtype} and {weight.dtype}; convert one of them"
        )
    return samples.reshape(-1)


def _check_mode(mode: Any, scale_grad_by_freq: bool, sparse: bool, samples: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{_NAME}(): mode has to be one of sum, mean or max, but got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError(
            f"{_NAME}(): max mode does not support scaling the gradient by the frequency"
        )
    if mode == "max" and sparse:
        raise ValueError(f"{_NAME}(): max mode does not support sparse weights")
    if mode != "sum" and samples:
        raise NotImplementedError(
            f"{_NAME}(): per_sample_weights is only supported for mode='sum', but got mode='{mode}'"
        )


def _bags(places: jax.Array, offsets: Any, include_last: bool) -> tuple[jax.Array, int]:
    """The bag of each element of the flattened input, and the number of bags."""
    if places.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"{_NAME}(): if input is 2D, its rows are the bags, and offsets has to be None; "
                f"got {type(offsets).__name__}"
            )
        bag = jax.lax.broadcasted_iota(jnp.int32, places.shape, 0)
        return bag.reshape(-1), places.shape[0]
    if places.ndim != 1:
        raise ValueError(f"{_NAME}(): input has to be 1D or 2D, but got shape {list(places.shape)}")
    if offsets is None:
        raise ValueError(f"{_NAME}(): offsets has to be a 1D array but got None")
    starts = arguments.index_array(_NAME, offsets, "offsets")
    if starts.ndim != 1:
        raise ValueError(
            f"{_NAME}(): offsets has to be a 1D array, but got shape {list(starts.shape)}"
        )
    _check_offsets(offsets, places.shape[0], include_last)
    position = jnp.arange(places.shape[0], dtype=starts.dtype)
    bag = jnp.searchsorted(starts, position, side="right").astype(jnp.int32) - 1
    return bag, starts.shape[0] - include_last


def _check_offsets(offsets: Any, length: int, include_last: bool) -> None:
    if include_last and offsets.shape[0] == 0:
        raise RuntimeError(
            f"{_NAME}(): include_last_offset: number of offsets should be at least 1, but got 0"
        )
    known = arguments.known(offsets)
    if known is None or known.size == 0:
        return
    if known[0] != 0:
        raise RuntimeError(
            f"{_NAME}(): offsets[0] has to be 0, i.e. the first bag has to start from position "
            f"0. However, got {known[0]}"
        )
    falls = known[1:] < known[:-1]
    if falls.any():
        at = int(falls.argmax())
        raise RuntimeError(
            f"{_NAME}(): offsets must ascend, but got {known[at + 1]} after {known[at]}, at "
            f"position {at + 1}"
        )
    if known[-1] > length:
        raise RuntimeError(
            f"{_NAME}(): offsets[-1] can not be greater than input's length {length} but got "
            f"offsets[-1] of {known[-1]}"
        )
