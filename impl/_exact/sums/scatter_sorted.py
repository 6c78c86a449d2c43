"""An exact scatter of wide rows on a GPU with kernels, which read each row from memory about once.

``scatter_rows`` writes and reads the exponents and the digits of all destinations, and adds each
element to memory twice. Here, the keys are sorted, and a *run*, the contributions of one
destination, is added in registers. A long run is cut into parts. Only cut runs have exponents and
digits in memory, a row for each part::

    keys            3 0 3 1 3          the destination of each contribution
    sorted          0 1 3 3 3          with their positions 1 3 0 2 4
    runs            [1] [3] [0 2 4]    each added by one kernel instance, unless it is cut

A contribution may be the product of a row and a factor, and several contributions may share a row.
The kernels compute such products where they add them, so that no array holds the products.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from impl import _kernels
from impl._core.native_scatter import natively
from impl._exact.sums import grid
from impl._exact.sums import scatter_rows as rows
from impl._exact.sums.grid import Digits
from impl._families.scatter_keys import sorted_keys
from impl._kernels.launch import Launch

#: The least width of rows, and the least number of them, for which a sort costs little.
_WIDTH, _ROWS = 16, 4096
#: The contributions up to which XLA's own sort takes fewer launches than CUB's.
_BITONIC = 1 << 14
#: The number of elements whose exponents and digits, 12 bytes each, fill half of the cache of a
#: GPU. For fewer elements, ``scatter_rows`` stays in the cache and takes fewer launches.
_CACHED = 1 << 21


def suits(size: int, width: int, count: int, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether rows are added by kernels.

    Args:
        size: The number of destinations.
        width: The number of elements of a row.
        count: The number of contributions.
        dtype: The dtype of rows.
    """
    # The sum of more float64 has four digits.
    holds = Digits.of(dtype, count + 1).number <= 2
    return holds and width >= _WIDTH and count >= _ROWS and size * width >= _CACHED


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
    """Returns the operand with rows added to it, in the spec's order ``exact``.

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
    value = functools.partial(rows.value_of_integers, dtype=dtype)
    kernels = _kernels.scatter_accumulate_rows
    arithmetic = kernels.Arithmetic(
        _exponent,
        rows.digits_in_kernel,
        functools.partial(value, count=kernels.PART + 1),
        Digits.of(dtype, 1).number,
        subtract,
    )
    count = keys.shape[0]
    keys, of_rows, of_factors = _sorted_contributions(keys, size, sources, factors)
    slots, owners = kernels.cuts(keys, size, launch=launch)
    runs = kernels.Runs(keys, of_rows, slots, of_factors)
    if empty:
        like = jax.ShapeDtypeStruct(operand.shape, dtype)
        whole = kernels.add_from_zeros(runs, updates, like, arithmetic, launch=launch)
    else:
        whole = kernels.add_whole_runs(
            runs, updates, _sums_of_one_term(operand), arithmetic, launch=launch
        )
    exponent = _with_parts(whole.exponents, slots, whole.most, "max")
    parts = kernels.add_cut_runs(
        runs,
        updates,
        exponent,
        arithmetic,
        launch=launch,
        operand=None if empty else whole.out,
    )
    pairs = zip(whole.digits, parts, strict=True)
    sums = [_with_parts(first, slots, part, "add") for first, part in pairs]
    results = value(sums, exponent, count=count + 1)

    def store(out: jax.Array, owners: jax.Array, results: jax.Array) -> jax.Array:
        return out.at[owners].set(results, mode="drop", unique_indices=True)

    stored: jax.Array = natively(store, whole.out, owners, results)
    return stored


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


def _exponent(value: jax.Array) -> jax.Array:
    return grid.exponents(lax.abs(value))


def _with_parts(initial: jax.Array, slots: jax.Array, parts: jax.Array, name: str) -> jax.Array:
    """Returns rows combined with the rows of parts, as integers, which any order combines alike."""

    def scatter(initial: jax.Array, slots: jax.Array, parts: jax.Array) -> jax.Array:
        return getattr(initial.at[slots], name)(parts, mode="drop")  # type: ignore[no-any-return]

    result: jax.Array = natively(scatter, initial, slots, parts)
    return result


def _sums_of_one_term(operand: jax.Array) -> jax.Array:
    """Returns the exact sum of each element alone: no subnormal of float32, and +0 for -0."""
    value = grid.at_least_float32(operand)
    if grid.is_long(value.dtype):
        # The finer grid is at least 2**-1050, so it rounds tiny terms.
        exponent = _exponent(value)
        return rows.value_of_integers(
            rows.digits_in_kernel(value, exponent), exponent, value.dtype, 1
        )
    is_small = lax.lt(lax.abs(value), lax.full_like(value, 2.0**-126))
    flushed = lax.select(is_small, lax.full_like(value, 0), value)
    return lax.convert_element_type(flushed, operand.dtype)
