"""Renders how PyTorch differs from its documents, and how the profiles differ from each other.

Directives: ``errata-table`` has a line for each erratum of the spec, and ``profile-changes`` a
table for each release that follows another. A small script sorts these tables; without it they are
read in the order in which they are written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import spec
from local_scripts import use_script
from spec import english
from spec_nodes import SpecDirective, paragraph

#: The behaviours of PyTorch's documents and of its code, in the words of a reader.
_BEHAVIOURS: dict[spec.Behaviour | None, str] = {
    "deterministic": "deterministic",
    "raise": "raises",
    "fill": "fills memory",
}
NOT_LISTED = "not listed"
NO_EFFECT = "the mode changes nothing"
_DIRECTIONS = {"forward": "call", "backward": "gradient"}

Cell = str | nodes.Node | list[nodes.Node]


def table(heads: Sequence[str], lines: Iterable[Sequence[Cell]]) -> nodes.table:
    """Returns a table with a line of headings that a click sorts by."""
    result = nodes.table(classes=["sortable"])
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    head, body = nodes.thead(), nodes.tbody()
    head += _line(heads)
    body += [_line(line) for line in lines]
    group += [head, body]
    result += group
    return result


def _line(cells: Sequence[Cell]) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        content = cell if isinstance(cell, list) else [paragraph(cell)]
        row += nodes.entry("", *content)
    return row


def documented(row: spec.Row, entries: spec.Spec) -> str:
    """Returns what PyTorch's documents list for a row, by the releases that have a profile."""
    releases: dict[str, list[str]] = {}
    for profile in entries.profiles.values():
        if profile.release:
            behaviour = _BEHAVIOURS.get(row.behaviour[profile.name], NOT_LISTED)
            releases.setdefault(behaviour, []).append(profile.release)
    if len(releases) == 1:
        return next(iter(releases))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in releases.items())


def since(erratum: spec.Erratum) -> str:
    """Returns the releases whose code does what an erratum states."""
    text = f"since {erratum.since}" + " or before" * erratum.since_is_bound
    return f"{text}, up to {erratum.until}" if erratum.until else text


class ErrataTable(SpecDirective):
    """One table of all errata: what PyTorch's documents list, and what its code does."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        entries = spec.load()
        errata = [(row, erratum) for row in entries.rows for erratum in row.errata]
        use_script(self.env, "sortable.js")
        heads = ("Function", "Call", "Documents", "Code", "Difference")
        lines = (self.line(row, erratum, entries) for row, erratum in errata)
        return [paragraph(f"There are {len(errata)} differences."), table(heads, lines)]

    def line(self, row: spec.Row, erratum: spec.Erratum, entries: spec.Spec) -> list[Cell]:
        """Returns the cells of one erratum."""
        calls = filter(None, (english.conditions(erratum.when, entries.facts), erratum.calls))
        condition = " and ".join(calls)
        when = f" The calls: {condition}." if condition else ""
        return [
            nodes.literal("", row.torch),
            f"{_DIRECTIONS[row.direction]}, {erratum.device or row.device}",
            documented(row, entries),
            f"{since(erratum)}: {_BEHAVIOURS.get(erratum.behaviour, NO_EFFECT)}",
            [paragraph(f"{erratum.statement}{when} (", self.link("row", row.id), ")")],
        ]


class ProfileChanges(SpecDirective):
    """For each pair of releases that follow each other: the rows whose behaviour changed."""

    def run(self) -> list[nodes.Node]:
        """Makes a rubric and a table for each pair."""
        entries = spec.load()
        use_script(self.env, "sortable.js")
        released = [profile for profile in entries.profiles.values() if profile.release]
        result: list[nodes.Node] = []
        for old, new in itertools.pairwise(released):
            rows = [r for r in entries.rows if r.behaviour[old.name] != r.behaviour[new.name]]
            result.append(nodes.rubric("", f"From {old.title} to {new.title}: {len(rows)} rows"))
            heads = ("Function", "Calls", old.release, new.release, "Row")
            result.append(table(heads, (self.line(row, old, new) for row in rows)))
        return result

    def line(self, row: spec.Row, old: spec.Profile, new: spec.Profile) -> list[Cell]:
        """Returns the cells of one row."""
        return [
            nodes.literal("", row.torch),
            row.condition,
            *(_BEHAVIOURS.get(row.behaviour[each.name], NOT_LISTED) for each in (old, new)),
            self.link("row", row.id),
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("local_scripts")
    app.add_directive("errata-table", ErrataTable)
    app.add_directive("profile-changes", ProfileChanges)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
