"""An exact scatter of wide rows on a GPU with kernels: each row is read from memory about once.

The plain form writes and reads the exponents and the digits of all destinations, and adds each
element to memory twice. Here, keys are sorted, and a run of one destination is added in registers.
Only a long run, which is cut into parts, has exponents and digits in memory, a row for each part.

A contribution may be the product of a row and a factor, and several may be of one row. These
products are computed where they are added, and are in no array.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from impl import _kernels
from impl._core.native_scatter import natively
from impl._core.shard_axes import vary_like
from impl._exact import grid, rows
from impl._exact.grid import Digits
from impl._kernels.launch import Launch
from impl._lowerings.scatter_accumulate_chains import sorted_keys, written

#: The least width of rows, and the least number of them, for which a sort costs little.
_WIDTH, _ROWS = 16, 4096
#: Elements whose exponents and digits, 12 bytes each, fill half of the cache of a GPU. The plain
#: form reads and writes fewer there, with fewer launches.
_CACHED = 1 << 21


def suits(size: int, width: int, count: int, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether rows are added by kernels.

    Args:
        size: The destinations.
        width: The elements of a row.
        count: The rows.
        dtype: Their dtype.
    """
    # The sum of more float64 has four digits.
    holds = Digits.of(dtype, count + 1).number <= 2
    return holds and width >= _WIDTH and count >= _ROWS and size * width >= _CACHED


def add(
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
        factors: What each is multiplied by, of the accumulator's dtype, shape [n]; None for 1.
        subtract: Whether the updates are subtracted.
        empty: Whether the operand is zeros, which are then neither written nor read.

    Returns:
        Shape and dtype of ``operand``.
    """
    size, dtype = operand.shape[0], operand.dtype
    total = functools.partial(rows.total, dtype=dtype)
    kernels = _kernels.scatter_accumulate_rows
    arithmetic = kernels.Arithmetic(
        _exponent,
        rows.integers,
        functools.partial(total, count=kernels.PART + 1),
        Digits.of(dtype, 1).number,
        subtract,
    )
    count = keys.shape[0]
    keys, positions = sorted_keys(keys, size)
    starts = _starts(keys, size)
    slots, owners = _cuts(keys, starts)
    runs = kernels.Runs(
        keys,
        positions if sources is None else sources[positions],
        slots,
        None if factors is None else factors[positions],
    )
    if empty:
        like = jax.ShapeDtypeStruct(operand.shape, dtype)
        out, most = kernels.add_from_zeros(runs, updates, starts, like, arithmetic, launch=launch)
        wide = grid.at_least_float32(jnp.zeros((), dtype)).dtype
        initial = vary_like(jnp.zeros((len(owners), operand.shape[1]), wide), updates, keys)
    else:
        initial = _alone(operand)
        out, most = kernels.add_whole_runs(runs, updates, initial, arithmetic, launch=launch)
        # The rows of cut runs are still those of the operand.
        initial = grid.at_least_float32(out.at[owners].get(mode="clip"))
    exponent = _combined(_exponent(initial), slots, most, "max")
    parts = kernels.add_cut_runs(runs, updates, exponent, arithmetic, launch=launch)
    pairs = zip(rows.integers(initial, exponent), parts, strict=True)
    sums = [_combined(first, slots, part, "add") for first, part in pairs]
    results = total(sums, exponent, count=count + 1)

    def store(out: jax.Array, owners: jax.Array, results: jax.Array) -> jax.Array:
        return out.at[owners].set(results, mode="drop", unique_indices=True)

    stored: jax.Array = natively(store, out, owners, results)
    return stored


def _exponent(value: jax.Array) -> jax.Array:
    return grid.exponents(lax.abs(value))


def _starts(keys: jax.Array, size: int) -> jax.Array:
    """Returns where the run of each destination starts, counted from 1, and 0 where there is none.

    For a run that is not cut, it is negated.
    """
    n, length = keys.shape[0], _kernels.scatter_accumulate_rows.PART
    is_first = jnp.concatenate([jnp.ones(1, bool), keys[1:] != keys[:-1]])
    after = jnp.concatenate([keys[length:], jnp.full(min(length, n), -1, jnp.int32)])
    place = jnp.arange(1, n + 1, dtype=jnp.int32)
    return written(keys, is_first, size, jnp.where(after == keys, place, -place))


def _cuts(keys: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Finds the runs that are cut, each of which has the number of the part it starts in.

    Returns:
        The slots of ``Runs``; the destination of each cut run, and beyond the last for none, int32,
        shape [parts].
    """
    n, size = keys.shape[0], starts.shape[0]
    length = _kernels.scatter_accumulate_rows.PART
    part = jnp.arange(-(-n // length), dtype=jnp.int32)
    first = part * length
    head, tail = keys[first], keys[jnp.minimum(first + length, n) - 1]
    of_head, of_tail = (starts.at[key].get(mode="fill", fill_value=0) for key in (head, tail))
    comes = (of_head > 0) & (of_head <= first)
    following = jnp.concatenate([head[1:], jnp.full(1, size, jnp.int32)])
    goes = (following == tail) & (of_tail > 0)
    is_one = head == tail
    none = len(part)
    slots = [
        jnp.where(comes, (of_head - 1) // length, jnp.where(is_one & goes, part, none)),
        jnp.where(goes & ~is_one, part, none),
    ]
    owners = jnp.where(goes & ~(is_one & comes), tail, size + part)
    return jnp.stack(slots, 1).reshape(-1), owners


def _combined(initial: jax.Array, slots: jax.Array, parts: jax.Array, name: str) -> jax.Array:
    """Returns rows combined with those of each part; no order changes the integers."""

    def scatter(initial: jax.Array, slots: jax.Array, parts: jax.Array) -> jax.Array:
        return getattr(initial.at[slots], name)(parts, mode="drop")  # type: ignore[no-any-return]

    result: jax.Array = natively(scatter, initial, slots, parts)
    return result


def _alone(operand: jax.Array) -> jax.Array:
    """Returns the sums of one term: without subnormals of float32, and with +0 for -0."""
    value = grid.at_least_float32(operand)
    if grid.is_long(value.dtype):
        # What is tiny is rounded.
        exponent = _exponent(value)
        return rows.total(rows.integers(value, exponent), exponent, value.dtype, 1)
    is_small = lax.lt(lax.abs(value), lax.full_like(value, 2.0**-126))
    flushed = lax.select(is_small, lax.full_like(value, 0), value)
    return lax.convert_element_type(flushed, operand.dtype)
