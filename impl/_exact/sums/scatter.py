"""A scatter that adds exactly, in the spec's order ``exact``, in any form of ``lax.scatter_add``.

Each destination has a grid of its own (``impl._exact.sums.grid``), which its largest term decides.
Four algorithms give the same bits; ``scatter_add`` takes the first that serves:

=====================  ======================================================  =====================
algorithm              steps                                                   serves
=====================  ======================================================  =====================
a large start          scatter-max of exponents, scatter-add of terms          one CPU, 2**21 terms
sorted rows            sort, then sums in registers: ``scatter_sorted``        a GPU, wide rows
integer rows           scatter-max, gather, int64 adds: ``scatter_rows``       one device
digits                 scatter-max, gather, scatter-add of float64 digits      any sharding
=====================  ======================================================  =====================

A large start needs no gather and no digits. Each destination begins at 1.5 * 2**(52 + e - 30), a
float64 whose last place is the grid 2**(e - 30), so that each addition rounds its term to the grid.
ReproBLAS deposits terms in this way (Ahrens, Nguyen and Demmel 2015, UCB/EECS-2015-229)::

    terms 1e8, 1, 0.1 of one destination       e = 27, grid 1/8
    start                                      1.5 * 2**49 = 844424930131968
    start + 1e8, + 1, + 0.1                    844425030131969.125: 0.1 counted as 1/8
    less start                                 100000001.125, which rounds to float32 100000000.0

XLA must not partition such a scatter, since each part would need the start. XLA for a GPU, with its
deterministic flags, adds updates to one another first, so that nothing would round them.

On a CPU, large starts and digits take a chunk of updates at a time, which stays in the cache.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax import lax
from jax.lax import GatherDimensionNumbers, ScatterDimensionNumbers

from impl._core.native_scatter import natively
from impl._core.numerics import fence
from impl._core.shard_axes import aligned, vary_like
from impl._exact.products.shards import Cuts
from impl._exact.sums import grid, scatter_rows, scatter_sorted
from impl._exact.sums.grid import Digits
from impl._kernels.launch import Launch

#: Where the scatter runs: on devices that XLA may partition it for, on one device, or on one CPU.
Target = Literal["anywhere", "device", "cpu"]

#: The number of elements of updates in a chunk on a CPU.
_CHUNK = 1 << 14
#: The number of bits of a float64 below the two leading bits of a large start, which hold the sum
#: of terms.
_ROOM = 51


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
    dtype = operand.dtype
    call = _Scatter(
        dimension_numbers,
        {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
        },
        tuple(axis_names),
    )
    original, given = operand, updates
    operand, updates = grid.at_least_float32(operand), grid.at_least_float32(updates)
    updates = lax.neg(updates) if subtract else updates
    count = (call.count(indices) + 1) * Cuts(call.names).parts
    short = not grid.is_long(dtype) and count <= 1 << (_ROOM - grid.bits())
    is_cpu = target == "cpu"
    if is_cpu and short and not axis_names:
        return _from_large(call, operand, indices, updates, dtype)
    digits = Digits.of(dtype, count)
    # The sum of more float64 has four digits.
    if target == "device" and not axis_names and digits.number <= 2:
        keys = scatter_rows.keys_of(operand, indices, updates, dimension_numbers, mode)
        if keys is not None and launch is not None:
            width = updates.size // keys.size
            if scatter_sorted.suits(original.size // width, width, keys.size, dtype):
                arrays = original.reshape(-1, width), keys, given.reshape(-1, width)
                out = scatter_sorted.add_by_runs(*arrays, launch, subtract=subtract, empty=empty)
                return out.reshape(original.shape)
        if keys is not None:
            return scatter_rows.add_rows(operand, keys, updates, dtype, unique=unique_indices)
    return _by_digits(call, operand, indices, updates, digits, dtype, cut=is_cpu)


@dataclasses.dataclass(frozen=True)
class _Scatter:
    """The parameters of a scatter.

    Attributes:
        numbers: The dimension numbers.
        options: The other parameters of ``lax.scatter_add``.
        names: The mesh axes to sum over.
    """

    numbers: ScatterDimensionNumbers
    options: dict[str, Any]
    names: tuple[Any, ...]

    @property
    def batch(self) -> tuple[int, ...]:
        """The batching axes of the indices."""
        return tuple(self.numbers.scatter_indices_batching_dims)

    def count(self, indices: jax.Array) -> int:
        """Returns the number of windows. Each window writes an element at most once."""
        sizes = enumerate(indices.shape[:-1])
        return math.prod(size for axis, size in sizes if axis not in self.batch)

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


def _by_digits(
    call: _Scatter,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    digits: Digits,
    dtype: jax.typing.DTypeLike,
    *,
    cut: bool,
) -> jax.Array:
    def compare(most: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
        return [call.max(most[0], indices, grid.exponents(lax.abs(updates)))]

    def add(sums: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
        added = digits.split(updates, call.gather(exponent, indices, updates))
        pairs = zip(sums, added, strict=True)
        return [call.add(total, indices, digit) for total, digit in pairs]

    most = [grid.exponents(lax.abs(operand))]
    (exponent,) = _over_updates(call, compare, most, indices, updates, cut=cut)
    if call.names:
        exponent = vary_like(lax.pmax(exponent, call.names), updates)
    initial = digits.split(operand, exponent)
    sums = _over_updates(call, add, initial, indices, updates, cut=cut)
    if call.names:
        sums, exponent = lax.psum(sums, call.names), lax.pmax(exponent, call.names)
    # Without fences, XLA makes the sum of one digit the operand of the scatter of the other.
    return digits.value_of_sums(list(map(fence, sums)), exponent, dtype)


def _from_large(
    call: _Scatter,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    dtype: jax.typing.DTypeLike,
) -> jax.Array:
    def compare(most: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
        return [call.max(most[0], indices, _exponent_field(updates))]

    def add(sums: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
        return [call.add(sums[0], indices, _without_ties(updates))]

    biased = [_exponent_field(operand)]
    (most,) = _over_updates(call, compare, biased, indices, updates, cut=True)
    initial = [lax.add(_start_of_sum(most), _without_ties(operand))]
    (sums,) = _over_updates(call, add, initial, indices, updates, cut=True)
    total = lax.sub(fence(sums), _start_of_sum(most))
    return grid.times_power_of_two(total, lax.full(total.shape, 0, np.int32), dtype)


def _exponent_field(value: jax.Array) -> jax.Array:
    """Returns the exponent fields of float32, each of which a byte holds."""
    raw = lax.bitcast_convert_type(value, np.int32)
    field = lax.shift_right_logical(raw, lax.full_like(raw, 23))
    return lax.convert_element_type(lax.bitwise_and(field, lax.full_like(field, 255)), np.uint8)


def _start_of_sum(biased: jax.Array) -> jax.Array:
    """Returns 1.5 * 2**(52 + e - bits), whose last place is the grid, also after additions.

    Args:
        biased: The exponent field of the largest term, which is e + 126.
    """
    field = lax.convert_element_type(biased, np.int64)
    field = lax.add(field, lax.full_like(field, 1023 + 52 - grid.bits() - 126))
    raw = lax.shift_left(field, lax.full_like(field, 52))
    raw = lax.bitwise_or(raw, lax.full_like(raw, 1 << 51))
    return lax.bitcast_convert_type(raw, np.float64)


def _without_ties(value: jax.Array) -> jax.Array:
    """Returns float32 as float64, a little farther from zero, so that no term is halfway on a grid.

    An addition rounds a term that is halfway to the even sum, which depends on earlier terms. The
    factor 1 + 2**-32 changes no other rounding. A term below 2**e moves by less than 2**(e - 32), a
    quarter of the grid, so that a term on the grid stays nearest to it. Any other term has 24 bits,
    and moves by less than its last place. A CPU takes subnormal numbers for zeros.
    """
    wide = lax.convert_element_type(value, np.float64)
    return lax.mul(wide, lax.full_like(wide, 1 + 2.0 ** -(grid.bits() + 2)))


def _over_updates(
    call: _Scatter,
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
