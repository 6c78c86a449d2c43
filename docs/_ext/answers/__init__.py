"""Answers: what the mode does to each call that the rows tell apart, as a cell with a short word.

Every page, table and matrix of the site takes its words from here:

    for cell in answers.of_op("index_add"):
        print(cell.direction, cell.device, cell.condition, cell.profile, cell.guarantee, cell.word)

``docs/tests/test_answers.py`` asks ``impl`` about the calls of each cell, and compares.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from answers._cell import GUARANTEES as GUARANTEES
from answers._cell import OFF as OFF
from answers._cell import WORDS as WORDS
from answers._cell import Cell as Cell
from answers._cell import Word as Word
from answers._cell import devices as devices
from answers._cell import ops as ops
from answers._cell import primitives as primitives
from answers._ops import of_op as of_op
from answers._primitives import of_primitive as of_primitive


def every() -> Iterator[Cell]:
    """Yields the cells of all ops, then the cells of all primitives of JAX."""
    for op in ops():
        yield from of_op(op)
    for primitive in primitives():
        yield from of_primitive(primitive)


@functools.cache
def by_row() -> Mapping[str, tuple[Cell, ...]]:
    """Returns the cells that each row decides, by the id of the row."""
    found: dict[str, list[Cell]] = {}
    for cell in every():
        if cell.row is not None:
            found.setdefault(cell.row, []).append(cell)
    return {row: tuple(cells) for row, cells in found.items()}
