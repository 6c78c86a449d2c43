"""A scatter that adds in the spec's order ``nearest``, in any form of ``lax.scatter_add``.

A result is the exact sum of a destination's terms, rounded once. XLA scatters three measures of the
terms of each destination, in any order, by atomics, and over devices:

=========  ============================================  ==========================
measure    combination                                   decides
=========  ============================================  ==========================
value      sum of the terms, float64                     the approximation
magnitude  sum of the absolute values                    the bound of its error
depth      maximum, greater for a lower last bit         whether ``value`` is exact
=========  ============================================  ==========================

If all terms are multiples of 2**g, and their absolute values add up to less than 2**(g + 53), then
float64 adds them without error. Else the error is at most n u / (1 - n u) times the magnitude for
u = 2**-53, in whatever order n terms are added (Higham, *Accuracy and Stability of Numerical
Algorithms*, 2002, section 4.2), and ``nearest.interval`` tests whether the bound decides. If a
destination is in doubt, ``nearest.digits`` scatters the digits of all terms, which are exact::

    terms                    3 * 2**20, 0.75, -2**20           1, 2**-24, 2**-80
    value                    2097152.75                        1 + 2**-24, a tie of float32
    last bit, magnitude      2**-2, 4194304.75 < 2**51         2**-80, 1 + 2**-24 > 2**-27
    result                   exact: 2097152.75                 in doubt; 2**-80 decides: 1 + 2**-23

Nearly all destinations are decided. On a CPU, scatters take a chunk of updates at a time, which
stays in the cache. ``scatter_rows`` and ``scatter_sorted`` are forms for one GPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import jax
from jax import lax
from jax.lax import GatherDimensionNumbers, ScatterDimensionNumbers

from impl._core.native_scatter import natively
from impl._core.numerics import ANY_ORDER
from impl._core.shard_axes import aligned, vary_like
from impl._exact.nearest import digits, interval
from impl._exact.nearest.digits import digit
from impl._exact.products.shards import Cuts
from impl._exact.sums import grid, scatter_rows
from impl._exact.sums.measures import Measures
from impl._exact.sums.scatter_rows import Rows
from impl._kernels.launch import Launch

#: Where the scatter runs: on devices that XLA may partition it for, on one device, or on one CPU.
Target = Literal["anywhere", "device", "cpu"]

#: The number of elements of updates in a chunk on a CPU.
_CHUNK = 1 << 14


def scatter_add(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    subtract: bool = False,
    target: Target = "anywhere",
    axis_names: Sequence[Any] = (),
    launch: Launch | None = None,
    empty: bool = False,
) -> jax.Array:
    """Returns the operand with updates added to it, as ``lax.scatter_add`` does.

    Args:
        operand: float16, bfloat16, float32 or float64, any shape.
        indices: Integers, as ``lax.scatter_add`` takes them.
        updates: The dtype of ``operand``.
        dimension_numbers: As ``lax.scatter_add`` takes them.
        mode: As ``lax.scatter_add`` takes it.
        indices_are_sorted: Whether they are; nothing checks it.
        unique_indices: Whether no two updates have one destination; nothing checks it.
        subtract: Whether the updates are subtracted.
        target: Where the scatter runs. Each value gives the same bits. ``"cpu"`` is faster, if
            XLA does not partition the scatter.
        axis_names: The mesh axes of a ``shard_map`` to sum over: operands and updates of all
            devices are added in one sum.
        launch: How kernels run, if the device is one that has them.
        empty: Whether the operand is zeros, which kernels then neither write nor read.

    ``lax.scatter_add`` has the parameters up to ``unique_indices`` too. The other parameters choose
    the algorithm.

    Returns:
        Shape and dtype of ``operand``.
    """
    if operand.size == 0:
        return operand
    operand, indices, updates = aligned(operand, indices, updates)
    call = _Scatter(
        dimension_numbers,
        {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
        },
        Cuts(tuple(axis_names)),
    )
    dtype = operand.dtype
    operand, updates = grid.at_least_float32(operand), grid.at_least_float32(updates)
    updates = lax.neg(updates) if subtract else updates
    parts = call.cuts.parts
    count = (1 if unique_indices else call.count(indices)) * parts + parts
    measures = Measures(dtype, count, byte=target == "cpu")
    if target == "device" and not axis_names:
        keys = scatter_rows.keys_of(operand, indices, updates, dimension_numbers, mode)
        if keys is not None:
            initial, added = scatter_rows.rows_of(operand, updates, keys.size)
            width = updates.size // keys.size
            rows = Rows.of(keys, operand.size // width, width, unique=unique_indices)
            return nearest(rows, initial, keys, added, measures).reshape(operand.shape)
    return nearest(call, operand, indices, updates, measures, cut=target == "cpu")


class Call(Protocol):
    """A scatter, by its parameters.

    Attributes:
        cuts: The mesh axes to sum over.
    """

    cuts: Cuts

    def add(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns the operand with updates added to it, in any order."""

    def max(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns the maximum of the operand and the updates."""

    def gather(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns, for each element of the updates, the element of its destination."""


@dataclasses.dataclass(frozen=True)
class _Scatter:
    """A scatter of XLA, in any form.

    Attributes:
        numbers: The dimension numbers.
        options: The other parameters of ``lax.scatter_add``.
        cuts: The mesh axes to sum over.
    """

    numbers: ScatterDimensionNumbers
    options: dict[str, Any]
    cuts: Cuts

    @property
    def batch(self) -> tuple[int, ...]:
        """The batching axes of the indices."""
        return tuple(self.numbers.scatter_indices_batching_dims)

    def count(self, indices: jax.Array) -> int:
        """Returns the number of windows. Each window writes an element at most once."""
        sizes = enumerate(indices.shape[:-1])
        return math.prod(size for axis, size in sizes if axis not in self.batch)

    @jax.named_scope(ANY_ORDER)
    def add(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        def scatter(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
            return lax.scatter_add(operand, indices, updates, self.numbers, **self.options)

        result: jax.Array = natively(scatter, operand, indices, updates)
        return result

    def max(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter_max(operand, indices, updates, self.numbers, **self.options)

    def gather(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns, for each element of the updates, the element of its destination."""
        numbers = self.numbers
        hidden = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        extents = iter(updates.shape[axis] for axis in numbers.update_window_dims)
        return lax.gather(
            operand,
            indices,
            GatherDimensionNumbers(
                offset_dims=tuple(numbers.update_window_dims),
                collapsed_slice_dims=tuple(numbers.inserted_window_dims),
                start_index_map=tuple(numbers.scatter_dims_to_operand_dims),
                operand_batching_dims=tuple(numbers.operand_batching_dims),
                start_indices_batching_dims=self.batch,
            ),
            [1 if axis in hidden else next(extents) for axis in range(operand.ndim)],
            fill_value=0,
            **self.options,
        )


def nearest(
    call: Call,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    measures: Measures,
    *,
    cut: bool = False,
) -> jax.Array:
    """Returns the operand with updates added to it, in the spec's order ``nearest``.

    Args:
        call: How XLA scatters.
        operand: float32 or float64.
        indices: As ``call`` takes them.
        updates: The dtype of ``operand``.
        measures: The measures of the sums.
        cut: Whether to take a chunk of updates at a time.
    """

    def measure(sums: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
        value, *others = measures.of(updates)
        added = [call.add(sums[0], indices, value)]
        for scatter, total, each in zip((call.add, call.max), sums[1:], others, strict=False):
            added.append(scatter(total, indices, each))
        return added

    start = measures.of(operand)
    value, *others = _over_updates(call, measure, start, indices, updates, cut=cut)
    if measures.is_plain:
        return measures.plain(call.cuts.sum(value))
    magnitude, depth = others
    joined = [call.cuts.sum(value), call.cuts.sum(magnitude), call.cuts.max(depth)]
    sums = measures.sums(joined)

    def add_digits(position: jax.Array, bits: int) -> jax.Array:
        def put(sums: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
            at = call.gather(position, indices, updates)
            return [call.add(sums[0], indices, digit(measures.widened(updates), at, bits))]

        position = vary_like(position, updates)
        initial = [digit(measures.widened(operand), position, bits)]
        (total,) = _over_updates(call, put, initial, indices, updates, cut=cut)
        return call.cuts.sum(total)

    def resolved(coded: jax.Array) -> jax.Array:
        asked = interval.is_doubt(coded)
        words = interval.word_of(interval.positive_zero(digits.exact(sums, asked, add_digits)))
        return lax.select(asked, words, coded)

    # The loop takes no step, or one.
    coded = lax.while_loop(
        lambda coded: lax.reduce_or(interval.is_doubt(coded), tuple(range(coded.ndim))),
        resolved,
        measures.coded(joined),
    )
    return lax.bitcast_convert_type(coded, measures.dtype)


def _over_updates(
    call: Call,
    step: Callable[[list[jax.Array], jax.Array, jax.Array], list[jax.Array]],
    initial: list[jax.Array],
    indices: jax.Array,
    updates: jax.Array,
    *,
    cut: bool,
) -> list[jax.Array]:
    """Applies ``step`` to all updates, or, if ``cut``, to one chunk of updates after another."""
    axes = [axis for axis in range(indices.ndim - 1) if axis not in call.batch]
    axis = max(axes, key=lambda axis: indices.shape[axis], default=0)
    n = indices.shape[axis] if axes else 1
    length = max(1, _CHUNK * n // max(updates.size, 1))
    if not cut or n < 2 * length:
        return step(initial, indices, updates)
    windows = call.numbers.update_window_dims
    others = [other for other in range(updates.ndim) if other not in windows]

    def part(state: list[jax.Array], start: Any, size: int) -> list[jax.Array]:
        return step(
            state,
            lax.dynamic_slice_in_dim(indices, start, size, axis),
            lax.dynamic_slice_in_dim(updates, start, size, others[axis]),
        )

    whole = n // length
    result: list[jax.Array] = lax.fori_loop(
        0, whole, lambda k, state: part(state, k * length, length), initial
    )
    return part(result, whole * length, n % length) if n % length else result
