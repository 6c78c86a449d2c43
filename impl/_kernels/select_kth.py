"""Kernels that find a key in a row: at any of its positions, or at the first."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: Elements of a row that one program takes.
_BLOCK = 1024


def any_position(keys: jax.Array, targets: jax.Array, *, launch: Launch) -> jax.Array:
    """Finds a position of the target in each row: of several, the one that is stored last.

    Args:
        keys: Integers, shape [rows, n]; each row contains its target.
        targets: Shape [rows].
        launch: How to run.

    Returns:
        int32, shape [rows].
    """
    rows, n = keys.shape
    blocks = pl.cdiv(n, _BLOCK)

    def kernel(keys_ref: Any, targets_ref: Any, _: Any, out_ref: Any) -> None:
        row, block = launch.program_id(0, rows), launch.program_id(1, blocks)
        column, equal = _matches(launch, keys_ref, targets_ref, row, block, n)
        launch.store_any(out_ref, jnp.broadcast_to(row, (_BLOCK,)), column, equal)

    return launch(
        kernel,
        (rows, blocks),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        keys.reshape(-1),
        targets,
        jnp.zeros((rows,), jnp.int32),
        name="select_atomic_any",
        aliases={2: 0},
    )


def first_position(keys: jax.Array, targets: jax.Array, *, launch: Launch) -> jax.Array:
    """Finds the lowest position of the target in each row.

    Args:
        keys: Integers, shape [rows, n]; each row contains its target.
        targets: Shape [rows].
        launch: How to run.

    Returns:
        int32, shape [rows].
    """
    rows, n = keys.shape
    blocks = pl.cdiv(n, _BLOCK)

    def kernel(keys_ref: Any, targets_ref: Any, out_ref: Any) -> None:
        row, block = launch.program_id(0, rows), launch.program_id(1, blocks)
        column, equal = _matches(launch, keys_ref, targets_ref, row, block, n)
        lowest = jnp.min(jnp.where(equal, column, jnp.int32(n)))
        launch.store(out_ref.at[row * blocks + block], lowest)

    lowest = launch(
        kernel,
        (rows, blocks),
        jax.ShapeDtypeStruct((rows * blocks,), jnp.int32),
        keys.reshape(-1),
        targets,
        name="select_ordered_first",
    )
    return jnp.min(lowest.reshape(rows, blocks), axis=1)


def _matches(
    launch: Launch, keys_ref: Any, targets_ref: Any, row: jax.Array, block: jax.Array, n: int
) -> tuple[jax.Array, jax.Array]:
    """Returns the columns of one block of a row, and whether each contains the row's target."""
    column = block * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
    inside = column < n
    key = launch.load(keys_ref.at[row * n + column], mask=inside, other=0)
    return column, inside & (key == launch.load(targets_ref.at[row]))
