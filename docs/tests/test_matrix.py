"""The matrix on the built site against the answers, which ``test_answers`` compares with `impl`."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

import answers
import matrix
import spec

HEADINGS = len(matrix.HEADINGS)


class Table(HTMLParser):
    """Collects the rows of the matrix: the texts of each cell, a text for each word."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[list[str]]] = []
        self.links: set[str] = set()
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inside = self.inside or given.get("id") == "matrix"
        if not self.inside:
            return
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            assert tag == "td" or given["scope"] in ("row", "col")
            self.rows[-1].append([])
        elif tag == "a":
            self.links.add(str(given["href"]))

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "table"

    def handle_data(self, data: str) -> None:
        if self.inside and self.rows and data.strip():
            self.rows[-1][-1].append(data.strip())


@pytest.fixture(scope="module")
def table(page_html: Callable[[str], str]) -> Table:
    return Table(page_html("matrix"))


def test_each_cell_has_the_words_of_the_answers(table: Table) -> None:
    head, *rows = table.rows
    columns = matrix.columns()
    assert [text for (text,) in head[HEADINGS:]] == [column.heading for column in columns]
    directions = {name: direction for direction, name in matrix.DIRECTIONS.items()}
    shown = {}
    for (op,), (direction,), (devices,), *cells in rows:
        for device in devices.lower().split(", "):
            for column, words in zip(columns, cells, strict=True):
                key = op, directions[direction], device, column.profile, column.guarantee
                assert key not in shown
                shown[key] = set(words)
    expected: dict[object, set[str]] = {}
    for cell in answers.every():
        for column in columns:
            if cell.guarantee == column.guarantee and cell.profile in (None, column.profile):
                key = cell.op, cell.direction, cell.device, column.profile, column.guarantee
                expected.setdefault(key, set()).add(cell.word)
    assert shown == expected


def test_each_operation_of_the_spec_has_a_line(table: Table) -> None:
    shown = {row[0][0] for row in table.rows[1:]}
    primitives = (row for row in spec.load().primitives if row.active)
    assert shown == {row.op for row in (*spec.load().select(kind="op", active=True), *primitives)}


def test_every_word_is_in_the_legend(table: Table, page_html: Callable[[str], str]) -> None:
    legend = page_html("matrix").partition("matrix-legend")[2]
    words = {word for row in table.rows[1:] for cell in row[HEADINGS:] for word in cell}
    for word in words:
        assert f">{word}</strong>" in legend.replace("&#x27;", "'")


def test_no_cell_is_blank(table: Table) -> None:
    assert all(cell for row in table.rows for cell in row)


def test_page_is_small(page_html: Callable[[str], str]) -> None:
    assert len(page_html("matrix").encode()) < 200_000
