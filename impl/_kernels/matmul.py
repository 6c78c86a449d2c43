"""The kernel of matrix products: tiles of fixed sizes, whose terms are added in a fixed order."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from impl._core.numerics import accumulator
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: From batch, row (or term) and term (or column) to the offset of an element in a flat operand, and
#: whether the operand has that element: if not, it counts as 0. The three arguments broadcast.
ElementAt: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, Any]]

#: Triton multiplies no smaller tiles.
_MIN_TILE = 16
_MAX_TILE = 64
#: Terms of one tile product.
_TERMS = 32
#: Programs that occupy a GPU of today, the least terms of a part, and the most parts. The number
#: of parts depends on sizes alone, so that it is the same on every device.
_PROGRAMS = 256
_PART = 512
_PARTS = 64


@dataclasses.dataclass(frozen=True)
class Product:
    """Sizes of a batch of matrix products, [rows, terms] by [terms, columns].

    Attributes:
        batch: Number of products.
        rows: Number of rows of a result.
        columns: Number of columns of a result.
        terms: Number of terms that an element of a result is the sum of.
        part: Number of terms that are added first; then these sums are added, in their order.
    """

    batch: int
    rows: int
    columns: int
    terms: int
    part: int

    @property
    def parts(self) -> int:
        """Number of parts that the terms are cut into."""
        return pl.cdiv(self.terms, self.part)


def part_of(batch: int, rows: int, columns: int, terms: int) -> int:
    """Returns a number of terms for each part that leaves enough parts to occupy a GPU."""
    tiles = batch * pl.cdiv(rows, _MAX_TILE) * pl.cdiv(columns, _MAX_TILE)
    parts = max(1, min(_PARTS, terms // _PART, _PROGRAMS // max(tiles, 1)))
    return pl.cdiv(pl.cdiv(terms, parts), _TERMS) * _TERMS


def products(
    a: jax.Array,
    b: jax.Array,
    product: Product,
    a_at: ElementAt,
    b_at: ElementAt,
    *,
    launch: Launch,
    tf32: bool,
    apart: bool,
) -> jax.Array:
    """Adds the terms of each element of the result, part by part.

    Args:
        a: The left operands, in any layout.
        b: The right operands, of the same dtype: floats.
        product: The sizes.
        a_at: Finds an element of a left operand.
        b_at: Finds an element of a right operand.
        launch: How to run.
        tf32: Whether float32 may be multiplied in less than full precision.
        apart: Whether each part has a program of its own. The results of all parts are then kept
            in memory.

    Returns:
        Shape [batch, rows, columns], of the dtype of the operands.
    """
    dtype = accumulator(a.dtype)
    height, width = _tile_size(product.rows), _tile_size(product.columns)
    down, across = pl.cdiv(product.rows, height), pl.cdiv(product.columns, width)
    outer = product.parts if apart else 1
    programs = product.batch * outer * down * across
    precision = jax.lax.Precision.HIGH if tf32 else jax.lax.Precision.HIGHEST

    def kernel(a_ref: Any, b_ref: Any, out_ref: Any) -> None:
        program = launch.program_id(0, programs)
        tile, column_tile = program // across, program % across
        matrix, row_tile = tile // down, tile % down
        row = (row_tile * height + jnp.arange(height, dtype=jnp.int32))[:, None]
        column = (column_tile * width + jnp.arange(width, dtype=jnp.int32))[None]

        def left(term: jax.Array, inside: jax.Array) -> jax.Array:
            element = a_at(matrix // outer, row, term)
            return _read(launch, a_ref, element, row < product.rows, inside)

        def right(term: jax.Array, inside: jax.Array) -> jax.Array:
            element = b_at(matrix // outer, term, column)
            return _read(launch, b_ref, element, inside, column < product.columns)

        def add(part: jax.Array, total: jax.Array) -> jax.Array:
            return launch.sum(total, _sum_of_part(product, part, left, right, precision, zeros))

        zeros = jnp.zeros((height, width), dtype)
        if outer == product.parts:
            total = _sum_of_part(product, matrix % outer, left, right, precision, zeros)
        else:
            total = jax.lax.fori_loop(0, product.parts, add, zeros)
        inside = (row < product.rows) & (column < product.columns)
        offset = (matrix * product.rows + row) * product.columns + column
        launch.store(out_ref.at[offset], total.astype(out_ref.dtype), mask=inside)

    size = product.batch * outer * product.rows * product.columns
    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((size,), dtype if outer > 1 else a.dtype),
        a.reshape(-1),
        b.reshape(-1),
        name="product_ordered",
    )
    out = flat.reshape(product.batch, outer, product.rows, product.columns)
    total = functools.reduce(jnp.add, (out[:, part] for part in range(outer)))
    return total.astype(a.dtype)


def _sum_of_part(
    product: Product,
    part: jax.Array,
    left: Callable[[jax.Array, jax.Array], jax.Array],
    right: Callable[[jax.Array, jax.Array], jax.Array],
    precision: jax.lax.Precision,
    zeros: jax.Array,
) -> jax.Array:
    """Returns the sum of the terms of one part for one tile, one tile product after another."""

    def step(number: jax.Array, total: jax.Array) -> jax.Array:
        in_part = number * _TERMS + jnp.arange(_TERMS, dtype=jnp.int32)
        term = part * product.part + in_part
        inside = (in_part < product.part) & (term < product.terms)
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


def _tile_size(length: int) -> int:
    return min(_MAX_TILE, max(_MIN_TILE, pl.next_power_of_2(length)))


def _read(
    launch: Launch, ref: Any, element: tuple[jax.Array, Any], first: jax.Array, second: jax.Array
) -> jax.Array:
    """Loads a tile of an operand; ``first`` and ``second`` are the masks of its two axes."""
    offset, exists = element
    shape = jnp.broadcast_shapes(first.shape, second.shape)
    mask = jnp.broadcast_to(first & second & exists, shape)
    return launch.load(ref.at[jnp.broadcast_to(offset, shape)], mask=mask, other=0)
