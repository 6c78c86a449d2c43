"""An exact scatter of wide rows on a GPU with kernels: each row is read from memory about once.

The plain form writes and reads the exponents and the digits of all destinations, and adds each
element to memory twice. Here, keys are sorted, and a run of one destination is added in registers.
Only a run that is cut by the chunks of programs has exponents and digits in memory, a row for each
cut.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.native_scatter import natively
from impl._exact import grid, rows
from impl._exact.grid import Digits
from impl._kernels import scatter_accumulate_rows as kernels
from impl._kernels.launch import Launch
from impl._kernels.scatter_accumulate_rows import CHUNK, Runs
from impl._lowerings.scatter_accumulate_chains import chain_table

#: The least width of rows, and the least number of them, for which a sort costs little.
_WIDTH, _ROWS = 16, 4096
#: Elements whose exponents and digits, 12 bytes each, stay in the cache of a GPU. The plain form
#: reads and writes these there, with fewer launches.
_CACHED = 1 << 21
#: The identity of a maximum of exponents.
_LEAST = np.int32(-(1 << 30))


def suits(size: int, width: int, count: int, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether rows are added by kernels.

    Args:
        size: The destinations.
        width: The elements of a row.
        count: The rows.
        dtype: Their dtype.
    """
    is_one = Digits.of(dtype, count + 1) == Digits.of(np.float32, 1)
    return is_one and width >= _WIDTH and count >= _ROWS and size * width > _CACHED


def add(operand: jax.Array, keys: jax.Array, updates: jax.Array, launch: Launch) -> jax.Array:
    """Returns the operand with rows added to it, in the spec's order ``exact``.

    Args:
        operand: float16, bfloat16 or float32, shape [size, width].
        keys: The destination of each row, int32, shape [n]; ``size`` for one that is dropped.
        updates: Of one of these dtypes, shape [n, width].
        launch: How to run the kernels.

    Returns:
        Shape and dtype of ``operand``.
    """
    size, dtype = operand.shape[0], operand.dtype
    starts, ends, positions = chain_table(keys, jnp.zeros_like, (size, 1))
    kept = jnp.sum(keys < size, dtype=jnp.int32, keepdims=True)
    runs = Runs(keys[positions], positions, starts, ends, kept)
    slots, owners = _cuts(runs, size)
    initial = grid.at_least_float32(operand.at[owners].get(mode="clip"))
    most = kernels.across(
        runs, updates, None, lambda row, _: _exponent(row), jnp.maximum, _LEAST, launch=launch
    )
    exponent = _combined(_exponent(initial), slots, most, "max")
    parts = kernels.across(
        runs, updates, exponent, rows.integer, jnp.add, np.int64(0), launch=launch
    )
    sums = _combined(rows.integer(initial, exponent), slots, parts, "add")

    def total(sums: jax.Array, exponent: jax.Array) -> jax.Array:
        return rows.total([sums], exponent, dtype, 1)

    results = total(sums, exponent)
    return kernels.within(
        runs,
        updates,
        _alone(operand),
        owners,
        results,
        _exponent,
        rows.integer,
        total,
        launch=launch,
    )


def _exponent(value: jax.Array) -> jax.Array:
    return grid.exponents(lax.abs(value))


def _cuts(runs: Runs, size: int) -> tuple[jax.Array, jax.Array]:
    """Finds the runs that chunks cut, each of which has the number of the chunk it starts in.

    Returns:
        The run of each row of ``kernels.across``, and beyond the last for none, int32, shape
        [2 * chunks]; the destination of each run, and beyond the last for none.
    """
    chunk = jnp.arange(runs.chunks, dtype=jnp.int32)
    first = chunk * CHUNK
    end = first + CHUNK
    beyond = jnp.minimum(end, runs.count[0])
    is_full = beyond > first
    key, other = runs.keys[first], runs.keys[jnp.maximum(beyond - 1, 0)]
    start, last_start = (runs.starts.at[k].get(mode="clip") for k in (key, other))
    run_end, last_end = (runs.ends.at[k].get(mode="clip") for k in (key, other))
    is_across = is_full & ((start < first) | (run_end > end))
    is_cut = is_full & (last_start > first) & (last_end > end)
    slots = [
        jnp.where(is_across, start // CHUNK, runs.chunks),
        jnp.where(is_cut, chunk, runs.chunks),
    ]
    owner = jnp.where(is_across & (start == first), key, size + chunk)
    return jnp.stack(slots, 1).reshape(-1), jnp.where(is_cut, other, owner)


def _combined(initial: jax.Array, slots: jax.Array, parts: jax.Array, name: str) -> jax.Array:
    """Returns rows combined with those of each chunk; no order changes the integers."""

    def scatter(initial: jax.Array, slots: jax.Array, parts: jax.Array) -> jax.Array:
        return getattr(initial.at[slots], name)(parts, mode="drop")  # type: ignore[no-any-return]

    result: jax.Array = natively(scatter, initial, slots, parts)
    return result


def _alone(operand: jax.Array) -> jax.Array:
    """Returns the sums of one term: without subnormals of float32, and with +0 for -0."""
    value = grid.at_least_float32(operand)
    is_small = lax.lt(lax.abs(value), lax.full_like(value, 2.0**-126))
    flushed = lax.select(is_small, lax.full_like(value, 0), value)
    return lax.convert_element_type(flushed, operand.dtype)
