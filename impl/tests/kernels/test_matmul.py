"""The kernel of matrix products."""

import functools

import jax.numpy as jnp
import pytest

from impl._kernels import matmul
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats


def multiply(launch, kernel, apart):
    def a_at(batch, row, part, term):
        return (batch * 70 + row) * 40 + part * 32 + term, matmul.below(row, 70)

    def b_at(batch, column, part, term):
        return (batch * 40 + part * 32 + term) * 33 + column, matmul.below(column, 33)

    sizes = matmul.Product(2, 70, 33, 40, 32)
    operands = floats(2, 70, 40), floats(2, 40, 33)
    kernel(*operands, sizes, a_at, b_at, launch=launch, tf32=False, apart=apart)


def multiply_matrices(launch, kernel):
    kernel(floats(2, 70, 40), floats(2, 40, 33), launch=launch, tf32=False)


#: Calls of each kernel, with sizes that fill no tile, and several tiles.
CALLS = {
    matmul.products: [functools.partial(multiply, apart=apart) for apart in (False, True)],
    matmul.matrices: [multiply_matrices],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])


@pytest.mark.parametrize(
    ("sizes", "least"),
    [
        ((1, 4096, 4096, 4096), 128 * 128),
        ((1, 410, 410, 410), 32 * 32),
        ((1024, 64, 64, 64), 64 * 64),
        ((1, 64, 576, 200704), 64 * 128),
        ((1, 128, 50176, 64), 128 * 128),
    ],
)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])
def test_tiles_have_half_of_the_arithmetic_intensity_of_a_library(sizes, least, dtype):
    parts = -(-sizes[3] // matmul.part_of(*sizes, dtype))
    tile = matmul.tile_of(*sizes, dtype, parts)
    assert tile.height * tile.width >= least
    assert tile.programs(*sizes[:3]) * parts >= 64
    # Libraries have tiles of 128 x 256, clipped to the result. The smallest product fills the GPU.
    height, width = min(128, sizes[1]), min(256, sizes[2])
    intensity = tile.height * tile.width / (tile.height + tile.width)
    if sizes[1] != 410:
        assert intensity >= height * width / (height + width) / 2


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("images", [7, 64])
def test_sums_of_parts_are_no_more_bytes_than_the_operands(images, size):
    dtype = {2: jnp.bfloat16, 4: jnp.float32}[size]
    terms, operands = images * 56 * 56, 2 * images * 64 * 56 * 56 * size
    parts = -(-terms // matmul.part_of(1, 64, 576, terms, dtype, operands))
    assert 2 * parts * 64 * 576 * 4 <= operands
    tile = matmul.tile_of(1, 64, 576, terms // parts, dtype, parts)
    assert tile.programs(1, 64, 576) * parts >= 128
    # For 64 images, the bound on memory does not change the number of parts.
    if images == 64:
        assert parts == -(-terms // matmul.part_of(1, 64, 576, terms, dtype))


def test_a_tile_of_terms_fits_into_shared_memory():
    for dtype in (jnp.bfloat16, jnp.float32):
        tile = matmul.tile_of(1, 4096, 4096, 4096, dtype)
        assert 3 * (tile.height + tile.width) * tile.depth * jnp.dtype(dtype).itemsize <= 96 * 1024
    assert matmul.tile_of(1, 64, 50176, 44, jnp.float32).depth == 16
