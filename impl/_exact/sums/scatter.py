"""A scatter that adds in the spec's order ``nearest``, in any form of ``lax.scatter_add``.

A result is the exact sum of a destination's terms, rounded once. XLA scatters the measures of the
terms (``measures``), in any order, by atomics, and over devices. They decide nearly all
destinations. If one is in doubt, more passes scatter parts of all terms (``measured_scatter``),
which float64 adds without error::

    terms of destinations 0, 1         1, 2**-24, 2**-80        3, 4
    values, which are scattered        1 + 2**-24               7
    rounded to float32                 in doubt, a tie          7
    parts                              2**-80 decides           not asked for
    result                             1 + 2**-23               7

The scatter has three forms:

- rows on one CPU, of which a chunk at a time is scattered, so that the updates stay in the cache:
  parts of all terms (``scatter_by_parts``), or measures if destinations outnumber updates;
- rows on one GPU (``scatter_rows``), or kernels for wide rows (``scatter_sorted``);
- the form of the caller, which XLA may partition, and which sums over the axes of a mesh.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
from jax import lax
from jax.lax import ScatterDimensionNumbers

from impl._core.native_scatter import natively
from impl._core.numerics import in_any_order
from impl._core.shard_axes import aligned
from impl._exact.arithmetic import is_long
from impl._exact.products.shards import Cuts
from impl._exact.sums import measured_scatter, scatter_by_parts, scatter_rows, scatter_sorted
from impl._exact.sums.measures import Measures, fraction_of
from impl._exact.sums.scatter_rows import Rows
from impl._kernels.launch import Launch

#: Where the scatter runs: on devices that XLA may partition it for, on one device, or on one CPU.
Target = Literal["anywhere", "device", "cpu"]

#: The number of elements of updates in a chunk on a CPU.
_CHUNK = 1 << 14
#: The least width of rows whose terms are counted.
_WIDE = 8


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
        target: Where the scatter runs. Each value gives the same bits. XLA may partition a scatter
            for ``"anywhere"`` alone.
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
    fraction = fraction_of(operand.dtype, updates.dtype)
    given, updates = updates, lax.neg(updates) if subtract else updates
    if target != "anywhere" and not axis_names:
        keys = scatter_rows.keys_of(operand, indices, updates, dimension_numbers, mode)
        if keys is not None:
            width = updates.size // keys.size
            size = operand.size // width
            if launch is not None and scatter_sorted.suits(size, width, keys.size, operand.dtype):
                arrays = operand.reshape(size, width), keys, given.reshape(-1, width)
                out = scatter_sorted.add_by_runs(*arrays, launch, subtract=subtract, empty=empty)
                return out.reshape(operand.shape)
            return _of_rows(operand, keys, updates, fraction, target=target, unique=unique_indices)
    options = {
        "indices_are_sorted": indices_are_sorted,
        "unique_indices": unique_indices,
        "mode": mode,
    }
    call = _Scatter(dimension_numbers, options, Cuts(tuple(axis_names)))
    count = 1 if unique_indices else call.count(indices)
    measures = Measures(operand.dtype, fraction, (count + 1) * call.cuts.parts)
    return measured_scatter.nearest(call, operand, indices, updates, measures)


def _of_rows(
    operand: jax.Array,
    keys: jax.Array,
    updates: jax.Array,
    fraction: int,
    *,
    target: Target,
    unique: bool,
) -> jax.Array:
    """Adds rows on one device; the arguments are as in ``scatter_add`` and ``scatter_rows``."""
    is_cpu, width = target == "cpu", updates.size // keys.size
    initial, added = scatter_rows.rows_of(operand, updates, width)
    size, n = initial.shape[0], keys.size
    rows = Rows.of(keys, size, width, unique=unique, replicas=not is_cpu)
    count = 2 if unique else n + 1
    measures = Measures(operand.dtype, fraction, count, byte=is_cpu)
    chunk = _CHUNK // width if is_cpu else None
    if is_cpu and scatter_by_parts.suits(initial, added, measures):
        nearest = scatter_by_parts.nearest
    else:
        nearest = measured_scatter.nearest
        has_counts = width >= _WIDE and count > 2 and not is_long(operand.dtype)
        counts = rows.counts(keys) if has_counts else None
        measures = dataclasses.replace(measures, counts=counts)
    return nearest(rows, initial, keys, added, measures, chunk=chunk).reshape(operand.shape)


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

    def add(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        def scatter(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
            return lax.scatter_add(operand, indices, updates, self.numbers, **self.options)

        with in_any_order():
            result: jax.Array = natively(scatter, operand, indices, updates)
        return result

    def max(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter_max(operand, indices, updates, self.numbers, **self.options)
