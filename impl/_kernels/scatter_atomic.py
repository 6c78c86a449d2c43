"""The atomic kernel of scatters: one pass of atomics, in the order in which the hardware comes.

It is for operations that XLA compiles to a loop of compare and swap.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._kernels import pallas as pl
from impl._kernels.launch import Launch, Reduction

#: The number of lanes of a kernel instance, each of which takes one element of the updates.
_LANES = 256


def combine(
    operand: jax.Array,
    keys: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
) -> jax.Array:
    """Combines rows of the operand with contributions.

    Args:
        operand: float32 or float64, shape [size, width].
        keys: The destination of each contribution, int32, shape [n]; ``size`` for one to drop.
        updates: Shape [n, width].
        reduction: The operation that combines: ``ADD`` or ``MUL``.
        launch: How to run.

    Returns:
        Shape and dtype of ``operand``.
    """
    size, width = operand.shape
    programs = pl.cdiv(updates.size, _LANES)

    def kernel(_: Any, keys_ref: Any, updates_ref: Any, out_ref: Any) -> None:
        lane = launch.program_id(0, programs) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
        exists = lane < updates.size
        key = launch.load(keys_ref.at[lane // width], mask=exists, other=size)
        value = launch.load(updates_ref.at[lane], mask=exists, other=0)
        inside = exists & (key < size)
        launch.atomic(out_ref, key * width + lane % width, value, inside, reduction)

    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((operand.size,), operand.dtype),
        operand.reshape(-1),
        keys,
        updates.reshape(-1),
        name=f"scatter_{reduction.name}_atomic",
        aliases={0: 0},
    )
    return flat.reshape(operand.shape)
