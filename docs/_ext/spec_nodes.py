"""The base of the directives that render the spec: texts, links to entries, and lists of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from docutils import nodes
from sphinx import addnodes
from sphinx.domains.std import StandardDomain
from sphinx.util.docutils import SphinxDirective

import spec
from spec import english

#: The text of an empty list.
NO_ROWS = "No operation."


def prose(text: str) -> list[nodes.Node]:
    """Returns the nodes of a text, with `backticks` as inline code."""
    pieces = re.split(r"`([^`]+)`", text)
    # Every second piece was between backticks.
    return [
        nodes.literal("", piece) if number % 2 else nodes.Text(piece)
        for number, piece in enumerate(pieces)
        if piece
    ]


def paragraph(*pieces: str | nodes.Node) -> nodes.paragraph:
    """Returns a paragraph of texts, with `backticks` as inline code, and of nodes."""
    result = nodes.paragraph()
    for piece in pieces:
        result += prose(piece) if isinstance(piece, str) else [piece]
    return result


def with_commas(entries: Iterable[nodes.Node]) -> list[str | nodes.Node]:
    """Returns the entries with commas between them."""
    pieces: list[str | nodes.Node] = []
    for entry in entries:
        pieces += [", ", entry] if pieces else [entry]
    return pieces


def condition_phrase(when: Mapping[str, Any], facts: Mapping[str, spec.Fact]) -> str:
    """Returns a condition in English."""
    return " and ".join(english.phrase(facts[name], test) for name, test in when.items())


def anchor(kind: str, name: str) -> str:
    """Returns the HTML id of an entry of the spec. A row keeps the id that it has in the spec."""
    return name if kind == "row" else nodes.make_id(f"{kind}-{name}")


class SpecDirective(SphinxDirective):
    """The base of the directives: links to entries, and lists of rows."""

    def profile(self, entries: spec.Spec, name: str) -> spec.Profile:
        """Returns the profile of a name; an unknown name is an error of the page."""
        if name not in entries.profiles:
            raise self.error(f"no profile {name!r}; there are {sorted(entries.profiles)}")
        return entries.profiles[name]

    def link(self, kind: str, name: str) -> nodes.Node:
        """Returns a link to an entry of the spec. With ``-n``, Sphinx checks that it exists."""
        return addnodes.pending_xref(
            "",
            nodes.literal("", name),
            refdomain="std",
            reftype=kind,
            reftarget=name,
            refexplicit=True,
            refdoc=self.env.docname,
        )

    def page(self, name: str, shown: nodes.Node) -> nodes.Node:
        """Returns a link to a page, by its name from the root of the site."""
        return addnodes.pending_xref(
            "",
            shown,
            refdomain="std",
            reftype="doc",
            reftarget=f"/{name}",
            refexplicit=True,
            refdoc=self.env.docname,
        )

    def anchor_entry(self, node: nodes.Element, kind: str, name: str) -> None:
        """Makes ``node`` the target of links to an entry."""
        node["ids"].append(anchor(kind, name))
        domain = cast("StandardDomain", self.env.get_domain("std"))
        domain.note_object(kind, name, anchor(kind, name), location=node)

    def items(
        self, rows: Iterable[spec.Row], body: Callable[[spec.Row], list[nodes.Node]]
    ) -> list[nodes.Node]:
        """Returns a bullet list of rows, or a line that states that there is none."""
        bullets = nodes.bullet_list()
        for row in rows:
            bullets += nodes.list_item("", *body(row))
        return [bullets] if len(bullets) else [paragraph(NO_ROWS)]

    def summary(self, row: spec.Row) -> nodes.paragraph:
        """Returns the name and the condition of a row, with a link to the whole row."""
        name: nodes.Node = nodes.literal("", row.torch)
        if f"ops/{row.op}" in self.env.found_docs:
            name = self.page(f"ops/{row.op}", name)
        return paragraph(name, f" — {row.condition} (", self.link("row", row.id), ")")

    def details(self, row: spec.Row) -> list[nodes.Node]:
        """Returns the lines below the statement of a row whose kind is not ``op``."""
        options = ", ".join(f"`{name}={value}`" for name, value in row.options.items())
        texts = {"XLA": row.in_xla, "Set": options, "Open": row.caveat}
        if row.in_xla and not options:
            texts["Set"] = "nothing: there is nothing to turn off."
        lines = [field(name, paragraph(text)) for name, text in texts.items() if text]
        return [nodes.field_list("", *lines)] if lines else []

    def remarks(self, row: spec.Row, entries: spec.Spec) -> list[nodes.Node]:
        """Returns the note of a row, and the errata of the documents that it cites."""
        remarks: list[nodes.Node] = [paragraph(row.note)] if row.note else []
        for erratum in row.errata:
            admonition = nodes.admonition("", nodes.title("", "Erratum"), classes=["note"])
            admonition += paragraph(erratum.statement)
            admonition += paragraph(
                english.behaviour_of_code(erratum, entries.facts, entries.devices)
            )
            admonition += field_list_of_sources(erratum.sources, entries)
            remarks.append(admonition)
        return remarks


def field(name: str, body: nodes.paragraph) -> nodes.field:
    """Returns one line of a field list."""
    return nodes.field("", nodes.field_name("", name), nodes.field_body("", body))


def field_list_of_sources(sources: Iterable[spec.Source], entries: spec.Spec) -> nodes.field_list:
    """Returns the sources of a row or an erratum, with the phrase to look for."""
    lines = nodes.field_list()
    for source in sources:
        document = entries.documents[source.document]
        releases = with_commas(
            nodes.reference("", release, refuri=document.url.format(release=release))
            if document.url
            else nodes.literal("", release)
            for release in source.releases
        )
        file: list[str | nodes.Node] = [", ", nodes.literal("", source.file)] if source.file else []
        citation = paragraph(f"{document.title}, ", *releases, *file, f": “{source.phrase}”")
        lines += field("Source", citation)
    return lines
