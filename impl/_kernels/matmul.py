"""The kernel of matrix products: tiles of fixed sizes, whose terms are added in a fixed order.

A library such as cuBLAS times several kernels, or chooses among them by tables of its release, so
the order of its sums is not known. Here the sizes of tiles and the number of parts are functions of
shapes and dtypes alone, and no timing chooses them.

The technique is a tiled product with split-K: where the tiles of a result are too few to occupy a
GPU, the terms are cut into parts, and the sums of the parts are added in their order. No atomics
add them. For one row by one column of 6 terms, in 2 parts of 3 terms, and tile products of a depth
of 1:

    terms      t0 t1 t2 | t3 t4 t5
    parts      (t0 + t1) + t2    (t3 + t4) + t5
    result     part 0 + part 1

The order of the terms within one tile product, which is one instruction of a tensor core or a few,
is open, so the guarantee is ``run_to_run``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from impl._core.numerics import accumulator
from impl._kernels import pallas as pl
from impl._kernels.launch import MAX_ELEMENTS, Launch

#: Maps batch, row or column, part, and terms within the part to the offset of an element in a flat
#: operand, and whether the operand has that element: if not, it counts as 0. Batch and part are
#: scalars, and the two other arguments broadcast.
ElementAt: TypeAlias = Callable[
    [jax.Array, jax.Array, jax.Array | int, jax.Array], tuple[jax.Array, Any]
]
#: Maps batch, row and column to the offset of an element of the flat result.
ResultAt: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

#: Triton multiplies no smaller tiles.
_MIN_TILE = 16
#: The tiles of results. A large tile reads each operand less often.
_TILES = ((128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (32, 32))
#: The number of bytes of a row of a tile of operands: a line of the cache. Three stages of the
#: largest tiles then fit into the shared memory of every GPU that Triton serves.
_LINE = 128
#: The number of bytes of one load.
_LOAD = 16
#: The least rows and columns for which it pays to copy an operand so that loads are wide.
_WORTH_PADDING = 64
#: Tile products that the body of a loop holds, so that the loads of the next part begin early. A
#: tile product without tensor cores is many instructions, so the body holds fewer.
_UNROLLED = 4
_UNROLLED_INSTRUCTIONS = 2
#: The number of kernel instances that occupy a GPU, the smaller number that occupies it if the
#: parts are bound by bytes, the least number of terms of a part, and the greatest number of parts.
#: The number of parts depends on sizes alone, so that it is the same on every device.
_PROGRAMS = 256
_FEW_PROGRAMS = 128
_PART = 512
_PARTS = 64
#: Neighbouring instances compute the tiles of this many rows of tiles, so that they read the same
#: operands while these are in the cache.
_BAND = 8


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


@dataclasses.dataclass(frozen=True)
class Tile:
    """The part of a result that one instance computes, and the terms that it reads at a time."""

    height: int
    width: int
    depth: int

    def programs(self, batch: int, rows: int, columns: int) -> int:
        """Returns the number of tiles of a batch of results."""
        return batch * pl.cdiv(rows, self.height) * pl.cdiv(columns, self.width)

    def warps(self, *, tensor_cores: bool) -> int:
        """Returns the number of warps of an instance. Each keeps its sums in registers."""
        return 8 if self.height * self.width >= (2**14 if tensor_cores else 2**13) else 4


def tile_of(
    batch: int,
    rows: int,
    columns: int,
    part: int,
    dtype: Any,
    most_parts: int = 1,
    area: int = 2**14,
) -> Tile:
    """Returns the largest tile that cuts the results into enough tiles to occupy a GPU.

    Args:
        batch: Number of products.
        rows: Number of rows of a result.
        columns: Number of columns of a result.
        part: Number of terms that are added first.
        dtype: The dtype of the operands.
        most_parts: The number of instances that may share a tile.
        area: The greatest number of elements of a tile.
    """
    size = jnp.dtype(dtype).itemsize
    depth = _depth(part, max(_MIN_TILE, _LINE // size))
    # Twice the bytes of a sum leave half as many registers.
    area = min(area, 2**12) if size == 8 else area
    pairs = [(_clipped(height, rows), _clipped(width, columns)) for height, width in _TILES]
    fitting = [pair for pair in pairs if math.prod(pair) <= area]
    for height, width in sorted(fitting, key=math.prod, reverse=True):
        tile = Tile(height, width, depth)
        if tile.programs(batch, rows, columns) * most_parts >= _FEW_PROGRAMS:
            return tile
    return tile


def part_of(
    batch: int, rows: int, columns: int, terms: int, dtype: Any, operands: int | None = None
) -> int:
    """Returns a number of terms for each part that leaves enough parts to occupy a GPU.

    Args:
        batch: As ``Product`` has it.
        rows: As ``Product`` has it.
        columns: As ``Product`` has it.
        terms: As ``Product`` has it.
        dtype: The dtype of the operands.
        operands: The bytes of the operands, an upper bound for the bytes of the sums of parts,
            which are written and read; None for no bound.
    """
    most = max(1, min(_PARTS, terms // _PART))
    sums = 2 * batch * rows * columns * accumulator(dtype).itemsize
    bound = operands // sums if operands is not None and sums else most
    is_bound = bound < most
    most = max(1, min(most, bound))
    tile = tile_of(batch, rows, columns, terms, dtype, most)
    tiles = max(tile.programs(batch, rows, columns), 1)
    # Where bytes bound the parts, just enough instances are made.
    enough = pl.cdiv(_FEW_PROGRAMS, tiles) if is_bound else _PROGRAMS // tiles
    parts = max(1, min(most, enough))
    return pl.cdiv(pl.cdiv(terms, parts), tile.depth) * tile.depth


def matrices(a: jax.Array, b: jax.Array, *, launch: Launch, tf32: bool) -> jax.Array:
    """Multiplies [batch, rows, terms] by [batch, terms, columns], of the same dtype: floats."""
    batch, rows, _ = a.shape
    columns = b.shape[2]
    if min(rows, columns) >= _WORTH_PADDING:
        a, b = _aligned(a, 2), _aligned(_aligned(b, 1), 2)
    terms, width = b.shape[1:]

    def a_at(
        matrix: jax.Array, row: jax.Array, number: jax.Array | int, term: jax.Array
    ) -> tuple[jax.Array, Any]:
        return (matrix * rows + row) * terms + (number * part + term), below(row, rows)

    def b_at(
        matrix: jax.Array, column: jax.Array, number: jax.Array | int, term: jax.Array
    ) -> tuple[jax.Array, Any]:
        offset = (matrix * terms + number * part + term) * width + column
        return offset, below(column, width)

    part = part_of(batch, rows, columns, terms, a.dtype)
    sizes = Product(batch, rows, columns, terms, part)
    out = products(a, b, sizes, a_at, b_at, launch=launch, tf32=tf32, apart=True)
    return out.reshape(batch, rows, columns)


def padding_of(length: int, dtype: Any) -> int:
    """Returns how many elements a row lacks until loads of several elements read all of it."""
    whole: int = _LOAD // jnp.dtype(dtype).itemsize
    return -length % whole


def below(index: jax.Array, size: int) -> Any:
    """Returns whether each index of a block is below a size: True if blocks fill the size."""
    return True if size % index.size == 0 else index < size


def both(first: Any, second: Any) -> Any:
    """Returns the conjunction of two masks; a mask may be True."""
    if first is True or second is True:
        return second if first is True else first
    return first & second


def _aligned(array: jax.Array, axis: int) -> jax.Array:
    """Pads an axis with zeros, so that loads of several elements read it, if there is room."""
    missing = padding_of(array.shape[axis], array.dtype)
    length = array.shape[axis]
    if missing == 0 or array.size // length * (length + missing) > MAX_ELEMENTS:
        return array
    return jnp.pad(array, [(0, missing if i == axis else 0) for i in range(array.ndim)])


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
    result_at: ResultAt | None = None,
) -> jax.Array:
    """Adds the terms of each element of the result, part by part.

    Args:
        a: The left operands, in any layout.
        b: The right operands, of the same dtype: floats.
        product: The sizes.
        a_at: Finds an element of a left operand, by its row.
        b_at: Finds an element of a right operand, by its column.
        launch: How to run.
        tf32: Whether float32 may be multiplied in less than full precision.
        apart: Whether each part has an instance of its own. The sums of all parts are then written
            to memory.
        result_at: Finds an element of the result, where parts have no instances of their own.
            Without it, the result is [batch, rows, columns].

    Returns:
        The flat result, of the dtype of the operands.
    """
    dtype = accumulator(a.dtype)
    outer = product.parts if apart else 1
    tensor_cores = tf32 or a.dtype.itemsize == 2
    # Without tensor cores, the sums of a part need as many registers as the total, so the tile is
    # half as large.
    area = 2**14 if tensor_cores or outer == product.parts else 2**13
    tile = tile_of(product.batch, product.rows, product.columns, product.part, a.dtype, outer, area)
    down, across = pl.cdiv(product.rows, tile.height), pl.cdiv(product.columns, tile.width)
    programs = product.batch * outer * down * across
    precision = jax.lax.Precision.HIGH if tf32 else jax.lax.Precision.HIGHEST

    def kernel(a_ref: Any, b_ref: Any, out_ref: Any) -> None:
        matrix, row_tile, column_tile = _tile_at(launch.program_id(0, programs), down, across)
        row = (row_tile * tile.height + jnp.arange(tile.height, dtype=jnp.int32))[:, None]
        column = (column_tile * tile.width + jnp.arange(tile.width, dtype=jnp.int32))[None]
        batch = jax.lax.div(matrix, jnp.int32(outer)) if outer > 1 else matrix

        def dot(number: jax.Array | int, first: Any, total: jax.Array) -> jax.Array:
            term = first + jnp.arange(tile.depth, dtype=jnp.int32)
            left, right = term[None], term[:, None]
            return total + jax.lax.dot_general(
                _read(launch, a_ref, a_at(batch, row, number, left), exists(number, left)),
                _read(launch, b_ref, b_at(batch, column, number, right), exists(number, right)),
                (((1,), (0,)), ((), ())),
                precision=precision,
                preferred_element_type=dtype,
            )

        exists = functools.partial(_exists, product)
        unrolled = _UNROLLED if tensor_cores else _UNROLLED_INSTRUCTIONS
        part = functools.partial(_sum_of_part, product.part, tile.depth, unrolled, dot)
        zeros = jnp.zeros((tile.height, tile.width), dtype)
        if outer == product.parts:
            number = jax.lax.rem(matrix, jnp.int32(outer)) if outer > 1 else 0
            total = part(number, zeros)
        else:
            total = jax.lax.fori_loop(
                0, product.parts, lambda i, total: launch.sum(total, part(i, zeros)), zeros
            )
        find = result_at if result_at is not None and outer == 1 else _matrix_at(product)
        mask = both(below(row, product.rows), below(column, product.columns))
        mask = None if mask is True else jnp.broadcast_to(mask, total.shape)
        launch.store(out_ref.at[find(matrix, row, column)], total.astype(out_ref.dtype), mask=mask)

    size = product.batch * outer * product.rows * product.columns
    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((size,), dtype if outer > 1 else a.dtype),
        a.reshape(-1),
        b.reshape(-1),
        name="product_ordered",
        num_warps=tile.warps(tensor_cores=tensor_cores),
    )
    out = flat.reshape(product.batch, outer, -1)
    total = functools.reduce(jnp.add, (out[:, part] for part in range(outer)))
    return total.astype(a.dtype).reshape(-1)


def _tile_at(number: jax.Array, down: int, across: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the matrix, the row and the column of the tile of an instance.

    Instances go through the tiles in bands of a few rows, each band column by column.
    """
    matrix = jax.lax.div(number, jnp.int32(down * across))
    tile = jax.lax.rem(number, jnp.int32(down * across))
    if down == 1:
        return matrix, jnp.int32(0), tile
    band = jax.lax.div(tile, jnp.int32(_BAND * across))
    first, within = band * _BAND, tile - band * (_BAND * across)
    high = jnp.minimum(_BAND, down - first)
    return matrix, first + jax.lax.rem(within, high), jax.lax.div(within, high)


def _sum_of_part(
    terms: int,
    depth: int,
    unrolled: int,
    dot: Callable[[jax.Array | int, Any, jax.Array], jax.Array],
    number: jax.Array | int,
    zeros: jax.Array,
) -> jax.Array:
    """Returns the sum of the terms of one part for one tile, one tile product after another."""
    steps = pl.cdiv(terms, depth)
    if steps > unrolled:
        return jax.lax.fori_loop(  # type: ignore[no-any-return]
            0, steps, lambda step, total: dot(number, step * depth, total), zeros
        )
    return functools.reduce(
        lambda total, step: dot(number, step * depth, total), range(steps), zeros
    )


def _depth(part: int, most: int) -> int:
    """Returns the number of terms of a tile product: the most, unless that wastes too much.

    The compiler multiplies the zeros past the end too. So a shorter tile is taken if the longest
    one has over an eighth more terms, zeros included.
    """
    depths = [most >> shift for shift in range(3) if most >> shift >= _MIN_TILE]
    least = min(pl.cdiv(part, depth) * depth for depth in depths)
    return next(d for d in depths if pl.cdiv(part, d) * d <= least * 9 // 8)


def _clipped(most: int, length: int) -> int:
    return min(most, max(_MIN_TILE, pl.next_power_of_2(length)))


def _exists(product: Product, number: jax.Array | int, term: jax.Array) -> Any:
    """Returns whether each term exists; True if all of them do."""
    inside = below(term, product.part)
    if product.terms % product.part == 0:
        return inside
    return both(number * product.part + term < product.terms, inside)


def _matrix_at(product: Product) -> ResultAt:
    return lambda matrix, row, column: (matrix * product.rows + row) * product.columns + column


def _read(launch: Launch, ref: Any, element: tuple[jax.Array, Any], exists: Any) -> jax.Array:
    """Loads a tile of an operand, and 0 where an element or its term does not exist."""
    offset, inside = element
    mask = both(inside, exists)
    if mask is True:
        return launch.load(ref.at[offset])
    return launch.load(ref.at[offset], mask=jnp.broadcast_to(mask, offset.shape), other=0)
