"""The kernel of matrix products: tiles of fixed size, terms added up in a fixed order."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl._core.numerics import accumulator
from impl._kernels.triton import Launch

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
    height, width = _block(product.rows), _block(product.columns)
    down, across = pl.cdiv(product.rows, height), pl.cdiv(product.columns, width)
    outer = product.parts if apart else 1
    programs = product.batch * outer * down * across
    precision = jax.lax.Precision.HIGH if tf32 else jax.lax.Precision.HIGHEST

    def kernel(a_ref: Any, b_ref: Any, out_ref: Any) -> None:
        program = launch.program_id(0, programs)
        place, column_tile = program // across, program % across
        place, row_tile = place // down, place % down
        row = (row_tile * height + jnp.arange(height, dtype=jnp.int32))[:, None]
        column = (column_tile * width + jnp.arange(width, dtype=jnp.int32))[None]

        def left(term: jax.Array, inside: jax.Array) -> jax.Array:
            return _read(a_ref, a_at(place // outer, row, term), row < product.rows, inside)

        def right(term: jax.Array, inside: jax.Array) -> jax.Array:
            return _read(
                b_ref, b_at(place // outer, term, column), inside, column < product.columns
            )

        def add(part: jax.Array, total: jax.Array) -> jax.Array:
            return launch.sum(total, _part(product, part, left, right, precision, zeros))

        zeros = jnp.zeros((height, width), wide)
        if outer == product.parts:
            total = _part(product, place % outer, left, right, precision, zeros)
        else:
            total = jax.lax.fori_loop(0, product.parts, add, zeros)
        inside = (row < product.rows) & (column < product.columns)
        offset = (place * product.rows + row) * product.columns + column
        plt.store(out_ref.at[offset], total.astype(out_ref.dtype), mask=inside)

    size = product.batch * outer * product.rows * product.columns
    dtype = wide if outer > 1 else a.dtype
    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((size,), dtype),
        a.reshape(-1),
        b.reshape(-1),
        name="product_ordered",
    )
    out = flat.reshape(product.batch, outer, product.rows, product.columns)
    total = functools.reduce(jnp.add, (out[:, part] for part in range(outer)))
    return total.astype(a.dtype)


def _part(
    product: Product,
    part: jax.Array,
    left: Callable[[jax.Array, jax.Array], jax.Array],
    right: Callable[[jax.Array, jax.Array], jax.Array],
    precision: jax.lax.Precision,
    zeros: jax.Array,
) -> jax.Array:
    """The sum of one part for one tile, of so many terms at a time as are multiplied at once."""

    def step(number: jax.Array, total: jax.Array) -> jax.Array:
        within = number * _TERMS + jnp.arange(_TERMS, dtype=jnp.int32)
        term = part * product.part + within
        inside = (within < product.part) & (term < product.terms)
        return total + jax.lax.dot_general(
            left(term[None], inside[None]),
            right(term[:, None], inside[:, None]),
            (((1,), (0,)), ((), ())),
            precision=precision,
            preferred_element_type=zeros.dtype,
        )

    return jax.lax.fori_loop(  # type: ignore[no-any-return]
        0, pl.cdiv(product.part, _TERMS), step, zeros
    )


def _block(length: int) -> int:
    return min(_MOST, max(_LEAST, pl.next_power_of_2(length)))


def _read(ref: Any, place: tuple[jax.Array, Any], first: jax.Array, second: jax.Array) -> jax.Array:
    offset, there = place
    shape = jnp.broadcast_shapes(first.shape, second.shape)
    mask = jnp.broadcast_to(first & second & there, shape)
    return plt.load(ref.at[jnp.broadcast_to(offset, shape)], mask=mask, other=0)
