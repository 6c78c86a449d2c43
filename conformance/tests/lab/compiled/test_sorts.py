"""The model of the sorts that a device runs."""

import pytest

from conformance.lab.compiled import sorts
from conformance.lab.compiled.hlo_program import Shape


@pytest.mark.parametrize(
    ("dtypes", "dimensions", "rows", "launches", "bytes_of_each"),
    [
        # Two memsets, two kernels of histograms, and a memset and a kernel for each of 4 digits.
        (("u32", "s32"), (1_000_000,), 1, 12, 4 + 4 * 16),
        (("u32",), (1_000_000,), 1, 12, 4 + 4 * 8),
        (("u64",), (1_000_000,), 1, 20, 8 + 8 * 16),
        (("u32",), (2**29,), 1, 20, 4 + 4 * 8),
        # A narrow key has three kernels for each digit, of which one reads the keys alone.
        (("u16",), (1_000_000,), 1, 9, 3 * (2 + 4)),
        (("u8", "s32"), (1_000_000,), 1, 6, 2 * (1 + 10)),
        # Rows: a kernel for the offsets, and six digits.
        (("u32", "s32"), (100, 10_000), 100, 7, 6 * (4 + 16)),
    ],
)
def test_cub_sorts_by_digits(dtypes, dimensions, rows, launches, bytes_of_each):
    arrays = [Shape(dtype, dimensions) for dtype in dtypes]
    sort = sorts.radix(arrays, rows)
    assert (sort.kind, sort.launches) == ("CUB", launches)
    assert sort.moved == bytes_of_each * arrays[0].elements


@pytest.mark.parametrize(
    ("length", "launches"), [(1, 1), (4096, 1), (4097, 3), (1_000_000, 45), (10_000_000, 91)]
)
def test_xla_sorts_by_tiles_and_stages(length, launches):
    """The launches are those that XLA listed for one row of 1,000,000 and of 10,000,000."""
    sort = sorts.bitonic([Shape("f32", (3, length))], 1)
    assert (sort.kind, sort.launches) == ("XLA's sort", launches)
    assert sort.moved == launches * 2 * 3 * 4 * length
