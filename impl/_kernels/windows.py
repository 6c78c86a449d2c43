"""The kernel of windows: adds each value atomically to every element that its window reads."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from impl._families.reductions import ADD
from impl._families.window_table import WindowTable
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: Values that one kernel instance takes.
_BLOCK = 128
#: Spatial dimensions of the kernel.
_DIMS = 3


def scatter(values: jax.Array, tables: tuple[WindowTable, ...], *, launch: Launch) -> jax.Array:
    """Adds each value, times the weight of each tap of its window, to the element of the tap.

    Args:
        values: Shape [lanes, *outputs], of up to three dimensions besides the lanes.
        tables: The table of windows of each of these dimensions.
        launch: How to run.

    Returns:
        Shape [lanes, *inputs].
    """
    lanes = values.shape[0]
    # A missing dimension is one window that reads one position.
    tables_3d = (WindowTable.of(1, [[0]]),) * (_DIMS - len(tables)) + tables
    outputs, inputs = [t.outputs for t in tables_3d], [t.inputs for t in tables_3d]
    operands = _operands(tables_3d, values.dtype)
    programs = pl.cdiv(values.size, _BLOCK)

    def kernel(*refs: Any) -> None:
        values_ref, out_ref, table_refs = refs[0], refs[-1], iter(refs[1:-2])
        columns = [
            (next(table_refs), None if t.weight is None else next(table_refs)) for t in tables_3d
        ]
        element = launch.program_id(0, programs) * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
        inside = element < values.size
        value = launch.load(values_ref.at[element], mask=inside, other=0)
        lane, windows = _split(element, outputs)

        def visit(dim: int, flat: jax.Array, value: jax.Array, alive: jax.Array) -> None:
            if dim == _DIMS:
                launch.atomic(out_ref, flat, value, alive, ADD)
                return
            index_ref, weight_ref = columns[dim]
            taps = tables_3d[dim].shape[1]

            def step(tap: jax.Array, _: None) -> None:
                offset = windows[dim] * taps + tap
                position = launch.load(index_ref.at[offset], mask=alive, other=-1)
                term = value
                if weight_ref is not None:
                    term = value * launch.load(weight_ref.at[offset], mask=alive, other=0)
                visit(dim + 1, flat * inputs[dim] + position, term, alive & (position >= 0))

            jax.lax.fori_loop(0, taps, step, None)

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
    return flat.reshape(lanes, *(t.inputs for t in tables))


def _operands(tables: tuple[WindowTable, ...], dtype: jax.typing.DTypeLike) -> list[jax.Array]:
    """Returns the positions of each table, and the weights of each table that has some, flat."""
    operands: list[jax.Array] = []
    for table in tables:
        operands.append(jnp.asarray(table.index.reshape(-1)))
        if table.weight is not None:
            operands.append(jnp.asarray(table.weight.reshape(-1), dtype))
    return operands


def _split(element: jax.Array, sizes: list[int]) -> tuple[jax.Array, list[jax.Array]]:
    """Splits a flat offset into [lanes, *sizes] into the lane and a position in each dimension."""
    positions: list[jax.Array] = []
    for size in reversed(sizes):
        positions.insert(0, element % size)
        element = element // size
    return element, positions
