"""The matrix: what the mode does to each operation, by device, direction and profile.

The template ``answer-matrix`` writes one table. ``_static/matrix.js`` adds its filters, and shows
it as a list on a phone. Without JavaScript the whole table is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import answers
import spec

#: The columns before the answers.
HEADINGS = ("Operation", "Direction", "Device")

#: The words of a cell of the table, the first of them the one to know first.
Words: TypeAlias = tuple[answers.Word, ...]


class Column(NamedTuple):
    """A column of answers.

    Attributes:
        heading: The heading.
        profile: The profile; None with the mode off.
        guarantee: The guarantee; None with the mode off.
    """

    heading: str
    profile: str | None
    guarantee: str | None


class Line(NamedTuple):
    """A line of the table.

    Attributes:
        op: The name of the operation.
        kind: ``op`` or ``primitive``.
        direction: The direction.
        words: The words of each column.
        devices: The names of the devices, which are several if all cells are equal.
    """

    op: str
    kind: str
    direction: spec.Direction
    words: tuple[Words, ...]
    devices: tuple[str, ...] = ()


def columns() -> tuple[Column, ...]:
    """Returns the columns of answers.

    The guarantee ``portable`` has one column, under the project's own profile: another profile
    differs from it in what it raises, which the column of that profile shows.
    """
    rules = spec.load()
    by_profile = (Column(name, name, answers.GUARANTEES[0]) for name in rules.profiles)
    own = rules.own_profile or rules.default_profile
    portable = Column(answers.GUARANTEES[1], own, answers.GUARANTEES[1])
    return (Column("mode off", None, answers.OFF), *by_profile, portable)


def lines() -> Iterator[Line]:
    """Yields the lines of the table: functions of ``impl``, then primitives of JAX."""
    cells = answers.grouped(
        ((cell.op, cell.kind, cell.direction, cell.device), cell) for cell in answers.every()
    )
    devices = answers.grouped(
        (Line(op, kind, direction, tuple(_words(own, column) for column in columns())), device)
        for (op, kind, direction, device), own in cells.items()
    )
    for line, names in devices.items():
        yield line._replace(devices=tuple(names))


def _words(cells: list[answers.Cell], column: Column) -> Words:
    """Returns the words of a column, in the order of the legend."""
    return answers.ordered(
        cell.word
        for cell in cells
        # The answers about primitives name no profile, because they hold under each.
        if cell.guarantee == column.guarantee and cell.profile in (column.profile, None)
    )
