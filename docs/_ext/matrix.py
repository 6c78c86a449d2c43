"""Renders the matrix: what the mode does to each operation, by device, direction and profile.

The directive ``answer-matrix`` writes one table. ``_static/matrix.js`` adds its filters, and shows
it as a list on a phone. Without JavaScript the whole table is there. Its words come from
``answers``, and the directive ``answer-legend`` explains them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import NamedTuple, TypeAlias

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import answers
import spec
from local_scripts import use_script
from spec_nodes import SpecDirective, paragraph

#: The names of a direction, for people who call an op.
DIRECTIONS: Mapping[spec.Direction, str] = {"forward": "call", "backward": "gradient"}
#: The folder of the pages of each kind of operation.
FOLDERS = {"op": "ops", "primitive": "primitives"}
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
        devices: The names of the devices, which are several if all cells are equal.
        words: The words of each column.
    """

    op: str
    kind: str
    direction: spec.Direction
    devices: tuple[str, ...]
    words: tuple[Words, ...]


def columns(rules: spec.Spec | None = None) -> tuple[Column, ...]:
    """Returns the columns of answers.

    The guarantee ``portable`` has one column, under the project's own profile: another profile
    differs from it in what it raises, which the column of that profile shows.
    """
    rules = rules or spec.load()
    by_profile = (Column(name, name, answers.GUARANTEES[0]) for name in rules.profiles)
    own = rules.own_profile or rules.default_profile
    portable = Column(answers.GUARANTEES[1], own, answers.GUARANTEES[1])
    return (Column("mode off", None, answers.OFF), *by_profile, portable)


def lines(rules: spec.Spec | None = None) -> Iterator[Line]:
    """Yields the lines of the table: functions of ``impl``, then primitives of JAX."""
    rules = rules or spec.load()
    own = (answers.of_op(op, rules) for op in answers.ops(rules))
    of_jax = (answers.of_primitive(op, rules) for op in answers.primitives(rules))
    for cells in itertools.chain(own, of_jax):
        yield from _lines_of(cells, columns(rules))


def _lines_of(cells: Iterable[answers.Cell], every: Iterable[Column]) -> Iterator[Line]:
    """Yields the lines of one operation. Devices with equal cells share a line."""
    found: dict[tuple[str, str, spec.Direction, tuple[Words, ...]], list[str]] = {}
    by_place: dict[tuple[str, str, spec.Direction, str], list[answers.Cell]] = {}
    for cell in cells:
        by_place.setdefault((cell.op, cell.kind, cell.direction, cell.device), []).append(cell)
    for (op, kind, direction, device), own in by_place.items():
        words = tuple(_words(own, column) for column in every)
        found.setdefault((op, kind, direction, words), []).append(device)
    for (op, kind, direction, words), devices in found.items():
        yield Line(op, kind, direction, tuple(devices), words)


def _words(cells: Iterable[answers.Cell], column: Column) -> Words:
    """Returns the words of a column, in the order of the legend."""
    found = {
        cell.word
        for cell in cells
        # The answers about primitives name no profile, because they hold under each.
        if cell.guarantee == column.guarantee and cell.profile in (column.profile, None)
    }
    return tuple(word for word in answers.WORDS if word in found)


def word_class(word: answers.Word) -> str:
    """Returns the class of a word in HTML, which gives it a colour."""
    return f"w{list(answers.WORDS).index(word)}"


def table(rules: spec.Spec | None = None) -> str:
    """Returns the table in HTML. End tags that HTML does not need are left out, to be short."""
    heads = [*HEADINGS, *(column.heading for column in columns(rules))]
    head = "".join(f"<th scope=col>{escape(text)}" for text in heads)
    body = "\n".join(_row(line) for line in lines(rules))
    caption = "The effect of the mode on each operation"
    profile = (rules or spec.load()).default_profile
    return (
        f'<table data-profile="{profile}" id="matrix">'
        f'<caption class="visually-hidden">{caption}</caption>'
        f"<thead><tr>{head}<tbody>\n{body}\n</table>"
    )


def _row(line: Line) -> str:
    """Returns a line in HTML. The script makes links of the cells, which would double its size."""
    page = f"{FOLDERS[line.kind]}/{line.op}.html"
    devices = ", ".join(line.devices).upper()
    cells = "".join(f"<td>{_chips(words)}" for words in line.words)
    return (
        f'<tr><th scope=row><a href="{page}">{escape(line.op)}</a>'
        f"<td>{DIRECTIONS[line.direction]}<td>{devices}{cells}"
    )


def _chips(words: Words) -> str:
    return " ".join(
        f"<b class={word_class(word)}>{escape(word, quote=False)}</b>" for word in words
    )


class AnswerMatrix(SpecDirective):
    """The table."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        use_script(self.env, "matrix.js")
        text = f'<div class="table-wrapper" id="matrix-box">{table()}</div>'
        return [nodes.raw("", text, format="html")]


class AnswerLegend(SpecDirective):
    """A list of the words of the matrix, with what each means."""

    def run(self) -> list[nodes.Node]:
        """Makes a definition list."""
        legend = nodes.definition_list(classes=["matrix-legend"])
        for word, meaning in answers.WORDS.items():
            term = nodes.term("", "", nodes.strong("", word))
            legend += nodes.definition_list_item("", term, nodes.definition("", paragraph(meaning)))
        return [legend]


def colour_words(_: Sphinx, tree: nodes.document, _page: str) -> None:
    """Gives the words of answers their colours on every page that says one in bold."""
    for strong in tree.findall(nodes.strong):
        for word in answers.WORDS:
            if strong.astext() == word:
                strong["classes"].append(word_class(word))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.add_directive("answer-matrix", AnswerMatrix)
    app.add_directive("answer-legend", AnswerLegend)
    app.connect("doctree-resolved", colour_words)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
