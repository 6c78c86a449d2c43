"""The launches and bytes of a sort, as it runs on a GPU.

XLA has two sorts. Its own is bitonic: a kernel sorts tiles of 4,096 elements in shared memory, and
each of the further ``log2(n) - 12`` stages runs one kernel for each distance above a tile and one
for all below; every kernel reads and writes all arrays. The other is CUB's radix sort, which XLA
takes where its table of measurements says so: ``IsCubSortFasterOnH100`` in XLA's
``backends/gpu/transforms/sort_rewriter.cc``, on Hopper 32-bit keys in one row of more than 22,000,
or in more than 26 rows of more than 131,072, and so on. Without a device XLA takes CUB's only if it
can look up the size of CUB's temporary memory; ``device_programs`` lets it.

CUB's launches follow ``dispatch_radix_sort.cuh`` and ``tuning_radix_sort.cuh`` of NVIDIA's CCCL:

- One row, keys of 32 or 64 bits (onesweep): two memsets, a kernel that reads the keys for the
  histograms of all digits, a kernel that sums those, and for each digit of 8 bits a memset and a
  kernel that reads and writes keys and values; again for each 2**28 elements.
- One row, narrower keys: for each digit, of 7 bits or 5, a kernel that reads the keys, a kernel
  that sums, and a kernel that reads and writes keys and values.
- Several rows (segmented): a kernel that writes the offsets of the rows, and for each digit, of 6
  bits or 5, a kernel with a block for each row that reads the keys twice and the values once and
  writes both.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Literal

from conformance.lab.compiled import hlo_program
from conformance.lab.compiled.hlo_program import Instruction, Program, Shape

_TARGET = re.compile(r'custom_call_target="(?:__cub\$|xla\.gpu\.ext\.cub_)(\w+)')
_ROWS = re.compile(r"\bbatch_size = (\d+)")
#: The elements of a tile that XLA's sort keeps in shared memory, by its logarithm.
_TILE = 12
#: The elements that CUB sorts at a time, about.
_PORTION = 2**28


@dataclasses.dataclass(frozen=True)
class Sort:
    """A sort.

    Attributes:
        kind: The sort that runs.
        launches: The kernels and memsets that it starts.
        moved: The bytes of their operands and results.
        note: What it sorts, and by what.
    """

    kind: Literal["CUB", "XLA's sort"]
    launches: int
    moved: int
    note: str


def of(program: Program, computation: str, instruction: Instruction) -> Sort | None:
    """Returns the sort that an instruction is; None if it is none.

    Args:
        program: The program.
        computation: The computation that the instruction is in.
        instruction: A ``sort``, a fusion around one, or a call of CUB.
    """
    called = _TARGET.search(instruction.rest) if instruction.opcode == "custom-call" else None
    if called:
        operands = [program.instruction(computation, name) for name in instruction.operands]
        arrays = [shape for each in operands for shape in hlo_program.shapes(each.result)]
        rows = _ROWS.search(instruction.rest)
        if called[1].startswith("sort"):
            return radix(arrays, int(rows[1]) if rows else 1)
        moved = instruction.bytes + sum(shape.bytes for shape in arrays)
        return Sort("CUB", 2, moved, called[1])  # A scan: it clears its state, and reads once.
    sort: Instruction | None = instruction
    if instruction.opcode == "fusion" and instruction.calls:
        inside = program.computations[instruction.calls]
        sort = next((each for each in inside if each.opcode == "sort"), None)
    if sort is None or sort.opcode != "sort":
        return None
    dimension = re.search(r"\bdimensions=\{(\d+)\}", sort.rest)
    return bitonic(hlo_program.shapes(sort.result), int(dimension[1]) if dimension else 0)


def bitonic(arrays: list[Shape], dimension: int) -> Sort:
    """Returns the cost of XLA's own sort of arrays along a dimension."""
    length = arrays[0].dimensions[dimension]
    stages = max(0, math.ceil(math.log2(max(1, length))) - _TILE)
    launches = 1 + sum(stage + 1 for stage in range(1, stages + 1))
    moved = 2 * sum(array.bytes for array in arrays)
    return Sort("XLA's sort", launches, launches * moved, f"bitonic, {_words(arrays)}")


def radix(arrays: list[Shape], rows: int) -> Sort:
    """Returns the cost of CUB's sort of keys, perhaps with values, in rows."""
    keys, *values = arrays
    bits, key_bytes = 8 * keys.width, keys.bytes
    value_bytes = sum(array.bytes for array in values)
    both = key_bytes + value_bytes
    if rows > 1:
        digits = math.ceil(bits / (6 if bits > 8 else 5))
        moved = digits * (key_bytes + 2 * both)
        return Sort("CUB", 1 + digits, moved, f"segmented, {rows} rows, {_words(arrays)}")
    if bits < 32:
        digits = math.ceil(bits / (7 if bits > 8 else 5))
        moved = digits * (key_bytes + 2 * both)
        return Sort("CUB", 3 * digits, moved, f"{digits} digits, {_words(arrays)}")
    digits = bits // 8
    portions = math.ceil(keys.elements / _PORTION)
    moved = key_bytes + digits * 2 * both
    return Sort("CUB", 4 + 2 * digits * portions, moved, f"onesweep, {_words(arrays)}")


def _words(arrays: list[Shape]) -> str:
    return " and ".join(f"{each.dtype}{list(each.dimensions)}" for each in arrays)
