"""A scatter that adds exactly, in the spec's order ``exact``, in any form of ``lax.scatter_add``.

Two algorithms give the same bits. The first works on any platform and any sharding: a scatter finds
the largest term of each destination, a gather brings the exponents to the updates, and a scatter
adds their digits. The second needs no gather and no digits. Each destination starts at a float64
so large that its last place is the grid, so that an addition to it rounds to the grid. It is for a
CPU, whose scatter is a loop. XLA must not cut it into parts, each of which would have to start
there; with the deterministic flags, XLA for a GPU adds updates to one another before.

On a CPU, both take a part of the updates at a time, which stays in the cache.
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

#: Where the scatter runs: on any devices, which XLA may cut it for; on one device; on one CPU.
Place = Literal["anywhere", "device", "cpu"]

#: Elements of updates that a CPU takes at once.
_CHUNK = 1 << 14
#: The bits of a sum of integers that a float64 keeps beside its leading bits.
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
    place: Place = "anywhere",
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
        place: Where it runs. ``"cpu"`` is faster, if XLA does not partition the scatter. All
            give the same bits.
        axis_names: The mesh axes of a ``shard_map`` to sum over: operands and updates of all
            devices are added in one sum.
        launch: How kernels run, if the device is one that has them.
        empty: Whether the operand is zeros, which kernels then neither write nor read.

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
    is_cpu = place == "cpu"
    if is_cpu and short and not axis_names:
        return _from_large(call, operand, indices, updates, dtype)
    digits = Digits.of(dtype, count)
    # The sum of more float64 has four digits.
    if place == "device" and not axis_names and digits.number <= 2:
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
    """The form of a scatter.

    Attributes:
        numbers: Its dimension numbers.
        options: The other parameters of ``lax.scatter_add``.
        names: The mesh axes to sum over.
    """

    numbers: ScatterDimensionNumbers
    options: dict[str, Any]
    names: tuple[Any, ...]

    @property
    def batch(self) -> tuple[int, ...]:
        """The axes of the indices that they share with the operand."""
        return tuple(self.numbers.scatter_indices_batching_dims)

    def count(self, indices: jax.Array) -> int:
        """Returns how many windows there are, each of which writes an element at most once."""
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
        """Returns the element of the operand that each element of the updates has."""
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
    # XLA would move the addition of two digits into the operand of a scatter.
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
    """Returns the field of the exponent of float32, which a byte holds."""
    raw = lax.bitcast_convert_type(value, np.int32)
    field = lax.shift_right_logical(raw, lax.full_like(raw, 23))
    return lax.convert_element_type(lax.bitwise_and(field, lax.full_like(field, 255)), np.uint8)


def _start_of_sum(biased: jax.Array) -> jax.Array:
    """Returns 1.5 * 2**(52 + e - bits): its last place is the grid, as is that of its neighbours.

    Args:
        biased: The field of the exponent of the largest term, which is e + 126.
    """
    field = lax.convert_element_type(biased, np.int64)
    field = lax.add(field, lax.full_like(field, 1023 + 52 - grid.bits() - 126))
    raw = lax.shift_left(field, lax.full_like(field, 52))
    raw = lax.bitwise_or(raw, lax.full_like(raw, 1 << 51))
    return lax.bitcast_convert_type(raw, np.float64)


def _without_ties(value: jax.Array) -> jax.Array:
    """Returns float32 as float64, a little farther from zero, so that none is halfway on a grid.

    An addition would round what is halfway to the even side, which depends on what has been added
    before. The factor moves nothing else: it adds less than a quarter of the grid to a term that is
    on the grid, and less than a part in 2**23, its last place, to one that is not. A CPU takes
    subnormal numbers for zeros.
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
    """Applies ``step`` to the updates, or to one part of them after another."""
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
