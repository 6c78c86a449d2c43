"""The kernel of matrix products: tiles of fixed size, terms added up in a fixed order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl.kernels.launch import Launch
from impl.numerics import accumulator

#: From batch, row (or term) and term (or column), of shapes that broadcast, to the offset of an
#: element in a flat operand, and whether there is one: where there is not, it is 0.
Place: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, Any]]

#: Triton multiplies no smaller tiles.
_LEAST = 16
_MOST = 64
_TERMS = 32
#: How many programs a GPU of today wants, and how many terms one of them should have at least.
#: Parts depend on sizes alone, so that every device has the same ones.
_PROGRAMS = 256
_PART = 512
_PARTS = 64


@dataclasses.dataclass(frozen=True)
class Product:
    """Products of matrices [rows, terms] and [terms, columns], one for each of a batch.

    Attributes:
        batch: How many there are.
        rows: Length of a column of the result.
        columns: Length of a row of it.
        terms: How many products an element adds up.
        part: How many of them are added up by themselves; then the parts are, in their order.
    """

    batch: int
    rows: int
    columns: int
    terms: int
    part: int

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return pl.cdiv(self.terms, self.part)


def part_of(batch: int, rows: int, columns: int, terms: int) -> int:
    """A length of parts such that a GPU has enough of them to do at a time."""
    tiles = batch * pl.cdiv(rows, _MOST) * pl.cdiv(columns, _MOST)
    parts = max(1, min(_PARTS, terms // _PART, _PROGRAMS // max(tiles, 1)))
    return pl.cdiv(pl.cdiv(terms, parts), _TERMS) * _TERMS


def products(
    a: jax.Array,
    b: jax.Array,
    product: Product,
    a_at: Place,
    b_at: Place,
    *,
    launch: Launch,
    tf32: bool,
    apart: bool,
) -> jax.Array:
    """Adds up the terms of each element of the result, part by part.

    Args:
        a: The left operands, in any layout.
        b: The right ones, of the same dtype: floats.
        product: The sizes.
        a_at: Where to find an element of a left operand.
        b_at: Where to find one of a right operand.
        launch: How to run.
        tf32: Whether float32 may be multiplied in less than full precision.
        apart: Whether programs of their own do the parts, at the cost of memory for each.

    Returns:
        Shape [batch, rows, columns], of the dtype of the operands.
    """
    wide = accumulator(a.dtype)
    block_rows, block_columns = _block(product.rows), _block(product.columns)
    down, across = pl.cdiv(product.rows, block_rows), pl.cdiv(product.columns, block_columns)
    outer = product.parts if apart else 1
    programs = product.batch * outer * down * across
    steps = pl.cdiv(product.part, _TERMS)
    precision = jax.lax.Precision.HIGH if tf32 else jax.lax.Precision.HIGHEST

    def kernel(a_ref: Any, b_ref: Any, out_ref: Any) -> None:
        program = launch.program_id(0, programs)
        place, column_tile = program // across, program % across
        place, row_tile = place // down, place % down
        batch, own_part = place // outer, place % outer
        row = (row_tile * block_rows + jnp.arange(block_rows, dtype=jnp.int32))[:, None]
        column = (column_tile * block_columns + jnp.arange(block_columns, dtype=jnp.int32))[None]

        def of_part(part: jax.Array) -> jax.Array:
            def step(number: jax.Array, total: jax.Array) -> jax.Array:
                within = number * _TERMS + jnp.arange(_TERMS, dtype=jnp.int32)
                term = part * product.part + within
                inside = (within < product.part) & (term < product.terms)
                left = _read(
                    a_ref, a_at(batch, row, term[None]), (row < product.rows), inside[None]
                )
                right = _read(
                    b_ref,
                    b_at(batch, term[:, None], column),
                    inside[:, None],
                    column < product.columns,
                )
                term_sum: jax.Array = total + jax.lax.dot_general(
                    left,
                    right,
                    (((1,), (0,)), ((), ())),
                    precision=precision,
                    preferred_element_type=wide,
                )
                return term_sum

            zeros = jnp.zeros((block_rows, block_columns), wide)
            return jax.lax.fori_loop(0, steps, step, zeros)  # type: ignore[no-any-return]

        if apart or product.parts == 1:
            total = of_part(own_part)
        else:
            total = jax.lax.fori_loop(
                0,
                product.parts,
                lambda part, total: launch.sum(total, of_part(part)),
                jnp.zeros((block_rows, block_columns), wide),
            )
        offset = (place * product.rows + row) * product.columns + column
        inside = (row < product.rows) & (column < product.columns)
        plt.store(out_ref.at[offset], total.astype(out_ref.dtype), mask=inside)

    out = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct(
            (product.batch * outer * product.rows * product.columns,),
            wide if outer > 1 else a.dtype,
        ),
        a.reshape(-1),
        b.reshape(-1),
        name="product_ordered",
    ).reshape(product.batch, outer, product.rows, product.columns)
    total = out[:, 0]
    for part in range(1, outer):
        total = total + out[:, part]
    return total.astype(a.dtype)


def _block(length: int) -> int:
    return min(_MOST, max(_LEAST, pl.next_power_of_2(length)))


def _read(ref: Any, place: tuple[jax.Array, Any], first: jax.Array, second: jax.Array) -> jax.Array:
    offset, there = place
    shape = jnp.broadcast_shapes(first.shape, second.shape)
    mask = jnp.broadcast_to(first & second & there, shape)
    return plt.load(ref.at[jnp.broadcast_to(offset, shape)], mask=mask, other=0)
