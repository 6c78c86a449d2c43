"""Kernels that find where a row has a given value: any place, or the first."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl._kernels.triton import Launch

_BLOCK = 1024


def any_position(keys: jax.Array, wanted: jax.Array, *, launch: Launch) -> jax.Array:
    """A position of ``wanted`` in each row; of several, whichever is stored last.

    Args:
        keys: Integers, shape [rows, n]; each row has its ``wanted`` somewhere.
        wanted: Shape [rows].
        launch: How to run.

    Returns:
        int32, shape [rows].
    """
    rows, n = keys.shape
    blocks = pl.cdiv(n, _BLOCK)

    def kernel(keys_ref: Any, wanted_ref: Any, _: Any, out_ref: Any) -> None:
        row, block = launch.program_id(0, rows), launch.program_id(1, blocks)
        column, found = _matches(keys_ref, wanted_ref, row, block, n)
        launch.store_any(out_ref, jnp.broadcast_to(row, (_BLOCK,)), column, found)

    return launch(
        kernel,
        (rows, blocks),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        keys.reshape(-1),
        wanted,
        jnp.zeros((rows,), jnp.int32),
        name="select_atomic_any",
        aliases={2: 0},
    )


def first_position(keys: jax.Array, wanted: jax.Array, *, launch: Launch) -> jax.Array:
    """The lowest position of ``wanted`` in each row.

    Args:
        keys: Integers, shape [rows, n]; each row has its ``wanted`` somewhere.
        wanted: Shape [rows].
        launch: How to run.

    Returns:
        int32, shape [rows].
    """
    rows, n = keys.shape
    blocks = pl.cdiv(n, _BLOCK)

    def kernel(keys_ref: Any, wanted_ref: Any, out_ref: Any) -> None:
        row, block = launch.program_id(0, rows), launch.program_id(1, blocks)
        column, found = _matches(keys_ref, wanted_ref, row, block, n)
        lowest = jnp.min(jnp.where(found, column, jnp.int32(n)))
        plt.store(out_ref.at[row * blocks + block], lowest)

    lowest = launch(
        kernel,
        (rows, blocks),
        jax.ShapeDtypeStruct((rows * blocks,), jnp.int32),
        keys.reshape(-1),
        wanted,
        name="select_ordered_first",
    )
    return jnp.min(lowest.reshape(rows, blocks), axis=1)


def _matches(
    keys_ref: Any, wanted_ref: Any, row: jax.Array, block: jax.Array, n: int
) -> tuple[jax.Array, jax.Array]:
    """Columns of one block of a row, and which of them hold what is wanted."""
    column = block * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
    inside = column < n
    key = plt.load(keys_ref.at[row * n + column], mask=inside, other=0)
    return column, inside & (key == plt.load(wanted_ref.at[row]))
