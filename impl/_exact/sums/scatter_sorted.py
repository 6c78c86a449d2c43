"""A scatter of wide rows on a GPU with kernels, which read each row from memory once.

``scatter_rows`` adds each element to memory once for each part. Here, the keys are sorted, and a
*run*, the contributions of one destination, is added in registers. A long run is cut into parts.
Only cut runs have measures in memory, a row for each part::

    keys            3 0 3 1 3          the destination of each contribution
    sorted          0 1 3 3 3          with their positions 1 3 0 2 4
    runs            [1] [3] [0 2 4]    each added by one kernel instance, unless it is cut

A contribution may be the product of a row and a factor, and several contributions may share a row.
The kernels compute such products where they add them, so that no array holds the products. If a
result is in doubt, all products are computed again, and scattered as rows (``scatter_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from impl import _kernels
from impl._core.native_scatter import natively
from impl._core.numerics import accumulator, convert, fence, in_any_order, product
from impl._exact.arithmetic import at_least_float32, is_long
from impl._exact.nearest import interval
from impl._exact.sums import scatter_rows
from impl._exact.sums.measures import COMBINATIONS, Measures, fraction_of
from impl._families.scatter_keys import sorted_keys
from impl._kernels.launch import Launch

#: The least width of rows, and the least number of them, for which a sort costs little.
_WIDTH, _ROWS = 16, 4096
#: The contributions up to which XLA's own sort takes fewer launches than CUB's.
_BITONIC = 1 << 14
#: The number of elements whose measures, 12 bytes each, fill half of the cache of a
#: GPU. For fewer elements, ``scatter_rows`` stays in the cache and takes fewer launches.
_CACHED = 1 << 21


def suits(size: int, width: int, count: int, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether rows are added by kernels.

    Args:
        size: The number of destinations.
        width: The number of elements of a row.
        count: The number of contributions.
        dtype: The dtype of rows. Nearly all sums of float64 would be in doubt.
    """
    is_wide = width >= _WIDTH and size * width >= _CACHED
    return not is_long(dtype) and is_wide and count >= _ROWS


def add_by_runs(
    operand: jax.Array,
    keys: jax.Array,
    updates: jax.Array,
    launch: Launch,
    *,
    sources: jax.Array | None = None,
    factors: jax.Array | None = None,
    subtract: bool = False,
    empty: bool = False,
) -> jax.Array:
    """Returns the operand with rows added to it, in the spec's order ``nearest``.

    Args:
        operand: float16, bfloat16, float32 or float64, shape [size, width].
        keys: The destination of each contribution, int32, shape [n]; ``size`` for one that is
            dropped.
        updates: The rows, of the dtype of ``operand``, shape [rows, width].
        launch: How to run the kernels.
        sources: The row of each contribution, int32, shape [n]; None if they are in order.
        factors: The factor of each contribution, of the accumulator's dtype, shape [n]; None
            for 1.
        subtract: Whether the updates are subtracted.
        empty: Whether the operand is zeros, which kernels then neither write nor read.

    Returns:
        Shape and dtype of ``operand``.
    """
    size, dtype = operand.shape[0], operand.dtype
    fraction = fraction_of(dtype, updates.dtype if factors is None else factors.dtype)
    measures = Measures(dtype, fraction)
    keys, of_rows, of_factors = _sorted_contributions(keys, size, sources, factors)
    slots, owners = _kernels.scatter_accumulate_rows.cuts(keys, size, launch=launch)
    runs = _kernels.scatter_accumulate_rows.Runs(keys, of_rows, slots, of_factors)
    arithmetic = _arithmetic(measures, subtract=subtract)
    out, has_doubt = _added(runs, owners, updates, operand, arithmetic, launch, empty=empty)

    def resolve(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        terms = convert(jnp.take(updates, of_rows, axis=0), accumulator(updates.dtype))
        if of_factors is not None:
            terms = product(terms, jnp.broadcast_to(of_factors[:, None], terms.shape))
        terms = lax.neg(terms) if subtract else terms
        initial = jnp.zeros_like(operand) if empty else operand
        exact = scatter_rows.added(initial, keys.astype(jnp.int32), terms)
        return exact, lax.full_like(state[1], False)

    # A loop of one step or none would save XLA a copy of the state, but XLA crashes where it
    # partitions a branch in a loop (jax 0.10 to 0.12).
    with in_any_order():
        state = fence((out, has_doubt))
        result, _ = lax.cond(state[1], resolve, lambda state: state, state)
    return result  # type: ignore[no-any-return]


def _arithmetic(
    measures: Measures, *, subtract: bool
) -> _kernels.scatter_accumulate_rows.Arithmetic:
    """Returns the arithmetic of kernels, whose terms are counted."""

    def total(sums: Sequence[jax.Array], count: jax.Array) -> tuple[jax.Array, jax.Array]:
        words = measures.coded(sums, count)
        values = lax.bitcast_convert_type(words, measures.dtype)
        return values, interval.is_doubt(words)

    return _kernels.scatter_accumulate_rows.Arithmetic(measures.of, COMBINATIONS, total, subtract)


def _added(
    runs: Any,
    owners: jax.Array,
    updates: jax.Array,
    operand: jax.Array,
    arithmetic: Any,
    launch: Launch,
    *,
    empty: bool,
) -> tuple[jax.Array, jax.Array]:
    """Returns the rows after the runs were added, and whether an element is in doubt."""
    kernels = _kernels.scatter_accumulate_rows
    if empty:
        like = jax.ShapeDtypeStruct(operand.shape, operand.dtype)
        whole = kernels.add_from_zeros(runs, updates, like, arithmetic, launch=launch)
    else:
        operand = _sums_of_one_term(operand)
        whole = kernels.add_whole_runs(runs, updates, operand, arithmetic, launch=launch)
    pairs = zip(arithmetic.combinations, whole.parts, strict=True)
    sums = [
        _with_parts(jnp.zeros_like(part[: runs.parts]), runs.slots, part, name)
        for name, part in pairs
    ]
    results, are_in_doubt = arithmetic.total(sums, jnp.int32(runs.count + 1))
    is_cut = (owners < operand.shape[0])[:, None]
    has_doubt = jnp.any(whole.doubts != 0) | jnp.any(are_in_doubt & is_cut)

    def store(out: jax.Array, owners: jax.Array, results: jax.Array) -> jax.Array:
        return out.at[owners].set(results, mode="drop", unique_indices=True)

    return natively(store, whole.out, owners, results), has_doubt


def _sorted_contributions(
    keys: jax.Array, size: int, sources: jax.Array | None, factors: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Returns sorted keys, and the row and the factor of each, in few launches.

    The order of equal keys is undefined.
    """
    count = keys.shape[0]
    if count <= _BITONIC:
        keys, positions = sorted_keys(keys, size)
        moves_rows = False
    else:
        # Without factors, the sort moves the numbers of rows instead of positions.
        number = jnp.arange(count, dtype=jnp.int32)
        moves_rows = sources is not None and factors is None
        if sources is not None and factors is None:
            number = sources
        keys = jnp.minimum(keys, size)
        # XLA computes keys and numbers in one launch if they share an operand. The sign bit of each
        # key is 0, so that the numbers stay as they are.
        number = number + lax.shift_right_logical(keys, jnp.int32(31))
        # CUB takes three launches fewer for 16 bits than for 32.
        keys = keys.astype(jnp.uint16) if size < 1 << 16 else keys
        keys, positions = lax.sort((keys, number), num_keys=1, is_stable=False)
    rows = positions if sources is None or moves_rows else sources[positions]
    return keys, rows, None if factors is None else factors[positions]


def _with_parts(initial: jax.Array, slots: jax.Array, parts: jax.Array, name: str) -> jax.Array:
    """Returns rows combined with the rows of parts, in any order."""

    def combine(initial: jax.Array, slots: jax.Array, parts: jax.Array) -> jax.Array:
        return getattr(initial.at[slots], name)(parts, mode="drop")  # type: ignore[no-any-return]

    with in_any_order():
        result: jax.Array = natively(combine, initial, slots, parts)
    return result


def _sums_of_one_term(operand: jax.Array) -> jax.Array:
    """Returns the exact sum of each element alone: no subnormal of float32, and +0 for -0."""
    value = at_least_float32(operand)
    is_small = lax.lt(lax.abs(value), lax.full_like(value, 2.0**-126))
    flushed = lax.select(is_small, lax.full_like(value, 0), value)
    return lax.convert_element_type(flushed, operand.dtype)
