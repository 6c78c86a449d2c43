"""The kernel of windows: each element of an operand is added to all that it was read from."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl._core.reductions import ADD
from impl._core.window_table import WindowTable
from impl._kernels.triton import Launch

_BLOCK = 128
_DIMS = 3


def spread(values: jax.Array, taps: tuple[WindowTable, ...], *, launch: Launch) -> jax.Array:
    """Adds each value, times the weights of its taps, to every element that its window reads.

    Args:
        values: Shape [lanes, *outputs], of up to three dimensions beside the lanes.
        taps: A table for each of these.
        launch: How to run.

    Returns:
        Shape [lanes, *inputs].
    """
    lanes = values.shape[0]
    # A dimension that is not there is one with one window that reads its one position.
    tables = (WindowTable.of(1, [[0]]),) * (_DIMS - len(taps)) + taps
    outputs, inputs = [t.outputs for t in tables], [t.inputs for t in tables]
    operands: list[jax.Array] = []
    for table in tables:
        operands.append(jnp.asarray(table.index.reshape(-1)))
        if table.weight is not None:
            operands.append(jnp.asarray(table.weight.reshape(-1), values.dtype))
    programs = pl.cdiv(values.size, _BLOCK)

    def kernel(*refs: Any) -> None:
        values_ref, out_ref, rest = refs[0], refs[-1], iter(refs[1:-2])
        columns = [(next(rest), None if t.weight is None else next(rest)) for t in tables]
        element = launch.program_id(0, programs) * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
        inside = element < values.size
        value = plt.load(values_ref.at[element], mask=inside, other=0)
        lane, windows = _split(element, outputs)

        def visit(dim: int, flat: jax.Array, value: jax.Array, alive: jax.Array) -> None:
            if dim == _DIMS:
                launch.atomic(out_ref, flat, value, alive, ADD)
                return
            index_ref, weight_ref = columns[dim]
            count = tables[dim].shape[1]

            def step(t: jax.Array, _: None) -> None:
                where = windows[dim] * count + t
                position = plt.load(index_ref.at[where], mask=alive, other=-1)
                own = value
                if weight_ref is not None:
                    own = value * plt.load(weight_ref.at[where], mask=alive, other=0)
                visit(dim + 1, flat * inputs[dim] + position, own, alive & (position >= 0))

            jax.lax.fori_loop(0, count, step, None)

        visit(0, lane, value, inside)

    size = lanes * math.prod(inputs)
    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((size,), values.dtype),
        values.reshape(-1),
        *operands,
        jnp.zeros((size,), values.dtype),
        name="windows_atomic",
        aliases={len(operands) + 1: 0},
    )
    return flat.reshape(lanes, *(t.inputs for t in taps))


def _split(element: jax.Array, sizes: list[int]) -> tuple[jax.Array, list[jax.Array]]:
    """A flat offset into [lanes, *sizes] as the lane and the position in each dimension."""
    positions: list[jax.Array] = []
    for size in reversed(sizes):
        positions.insert(0, element % size)
        element = element // size
    return element, positions
