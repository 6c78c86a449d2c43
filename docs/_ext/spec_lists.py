"""Renders the spec on the site: nothing that a row says is typed by hand.

Directives: ``spec-profiles``, ``spec-profile``, ``spec-list``, ``spec-kind``,
``spec-out-of-scope``, ``spec-orders`` and ``spec-rows``. Roles: ``row``, ``profile`` and ``order``
link to an entry by its name, and an unknown name is a warning. ``spec_pages`` writes the pages of
the profiles.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.domains.std import StandardDomain
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import row_evidence
import spec
from conformance.reporting.report import ReportError
from spec import english
from spec_pages import OUT_OF_SCOPE, PARTS, write_pages

UNAFFECTED = "not affected by the mode"
NOTHING = "No operation."


def prose(text: str) -> list[nodes.Node]:
    """The text as nodes, with `backticks` as inline code."""
    pieces = re.split(r"`([^`]+)`", text)
    made: list[nodes.Node] = [
        nodes.literal("", piece) if place % 2 else nodes.Text(piece)
        for place, piece in enumerate(pieces)
        if piece
    ]
    return made


def paragraph(*pieces: str | nodes.Node) -> nodes.paragraph:
    """A paragraph of text with `backticks` and ready nodes."""
    made = nodes.paragraph()
    for piece in pieces:
        made += prose(piece) if isinstance(piece, str) else [piece]
    return made


def joined(entries: Iterable[nodes.Node]) -> list[str | nodes.Node]:
    """The entries with commas between them."""
    made: list[str | nodes.Node] = []
    for entry in entries:
        made += [", ", entry] if made else [entry]
    return made


def calls(when: Mapping[str, Any], facts: Mapping[str, spec.Fact]) -> str:
    """The calls that meet ``when``, in English."""
    return " and ".join(english.phrase(facts[name], test) for name, test in when.items())


def anchor(kind: str, name: str) -> str:
    """The HTML id of an entry of the spec; a row's is the row's own."""
    return name if kind == "row" else nodes.make_id(f"{kind}-{name}")


class SpecDirective(SphinxDirective):
    """What the directives of this module share."""

    def profile(self, entries: spec.Spec, name: str) -> spec.Profile:
        """The profile of this name."""
        if name not in entries.profiles:
            raise self.error(f"no profile {name!r}; there are {sorted(entries.profiles)}")
        return entries.profiles[name]

    def link(self, kind: str, name: str) -> nodes.Node:
        """A link to an entry of the spec, which ``-n`` checks."""
        return addnodes.pending_xref(
            "",
            nodes.literal("", name),
            refdomain="std",
            reftype=kind,
            reftarget=name,
            refexplicit=True,
            refdoc=self.env.docname,
        )

    def anchored(self, node: nodes.Element, kind: str, name: str) -> None:
        """Makes ``node`` the place to which links to the entry go."""
        node["ids"].append(anchor(kind, name))
        domain = cast("StandardDomain", self.env.get_domain("std"))
        domain.note_object(kind, name, anchor(kind, name), location=node)

    def items(
        self, rows: Iterable[spec.Row], body: Callable[[spec.Row], list[nodes.Node]]
    ) -> list[nodes.Node]:
        """A bullet list of rows, or a line that says that there is none."""
        made = nodes.bullet_list()
        for row in rows:
            made += nodes.list_item("", *body(row))
        return [made] if len(made) else [paragraph(NOTHING)]

    def head(self, row: spec.Row) -> nodes.paragraph:
        """A row in one line, with a link to all that it says."""
        name = nodes.literal("", row.torch)
        return paragraph(name, f" — {row.condition} (", self.link("row", row.id), ")")

    def details(self, row: spec.Row) -> list[nodes.Node]:
        """What a row of another kind than ``op`` says beside its sentence, one line for each."""
        options = ", ".join(f"`{name}={value}`" for name, value in row.options.items())
        texts = {"XLA": row.in_xla, "Set": options, "Open": row.caveat}
        if row.in_xla and not options:
            texts["Set"] = "nothing: there is nothing to turn off."
        lines = [field(name, paragraph(text)) for name, text in texts.items() if text]
        return [nodes.field_list("", *lines)] if lines else []

    def remarks(self, row: spec.Row, entries: spec.Spec) -> list[nodes.Node]:
        """What is to be said beside the condition: a note, and an erratum of the documents."""
        made: list[nodes.Node] = [paragraph(row.note)] if row.note else []
        if row.erratum:
            done = PARTS[row.erratum.behaviour].verb if row.erratum.behaviour else UNAFFECTED
            when = calls(row.erratum.when, entries.facts)
            what = f"PyTorch's code since {row.erratum.since}: {done}"
            admonition = nodes.admonition("", nodes.title("", "Erratum"), classes=["note"])
            admonition += paragraph(row.erratum.statement)
            if row.erratum.unaffected_elsewhere:
                when += f"; otherwise {UNAFFECTED}"
            admonition += paragraph(f"{what}, when {when}." if when else f"{what}.")
            made.append(admonition)
        return made


class SpecProfiles(SpecDirective):
    """Every profile: a link to its page, its title and what it promises."""

    def run(self) -> list[nodes.Node]:
        """Makes a bullet list."""
        made = nodes.bullet_list()
        for profile in spec.load().profiles.values():
            default = " This is the default." if profile.default else ""
            line = paragraph(self.link("profile", profile.name), f" — {profile.statement}{default}")
            made += nodes.list_item("", line)
        return [made]


class SpecProfile(SpecDirective):
    """What one profile promises; links to the profile come here."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Makes a paragraph."""
        profile = self.profile(spec.load(), self.arguments[0])
        default = " It is the default profile." if profile.default else ""
        made = paragraph(f"{profile.statement}{default}")
        self.anchored(made, "profile", profile.name)
        return [made]


class SpecList(SpecDirective):
    """The active rows with one behaviour under one profile."""

    option_spec: ClassVar[OptionSpec | None] = {
        "profile": directives.unchanged_required,
        "behaviour": lambda argument: directives.choice(argument, spec.BEHAVIOURS),
        "device": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Makes a bullet list."""
        entries = spec.load()
        for option in ("profile", "behaviour"):
            if option not in self.options:
                raise self.error(f"spec-list needs the option :{option}:")
        profile = self.profile(entries, self.options["profile"])
        rows = entries.select(
            profile=profile.name, behaviour=self.options["behaviour"], kind="op", active=True
        )
        device = self.options.get("device")
        return self.items(
            (row for row in rows if device is None or row.covers(device)),
            lambda row: [self.head(row), *self.remarks(row, entries)],
        )


class SpecKind(SpecDirective):
    """The active rows of a kind other than ``op``; of one profile or of all."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec | None] = {"profile": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Makes a bullet list."""
        entries = spec.load()
        kind = self.arguments[0]
        if kind not in spec.KINDS or kind == "op":
            raise self.error(f"no kind {kind!r} to list; there are {spec.KINDS[1:]}")
        name = self.options.get("profile")
        profile = self.profile(entries, name).name if name else None
        return self.items(
            entries.select(kind=kind, profile=profile, active=True),
            lambda row: [self.line(row), *self.details(row)],
        )

    def line(self, row: spec.Row) -> nodes.paragraph:
        """What the row says in one line, with a link to all of it."""
        return paragraph(
            nodes.literal("", row.op), f" — {row.statement} (", self.link("row", row.id), ")"
        )


class SpecOutOfScope(SpecDirective):
    """The rows that no JAX platform can meet, and why; of one profile or of all."""

    option_spec: ClassVar[OptionSpec | None] = {"profile": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Makes a bullet list."""
        entries = spec.load()
        name = self.options.get("profile")
        profile = self.profile(entries, name).name if name else None
        return self.items(
            entries.select(profile=profile, active=False),
            lambda row: [self.head(row), paragraph(row.reason or "")],
        )


class SpecOrders(SpecDirective):
    """Every order, with the numbers of its statement filled in."""

    def run(self) -> list[nodes.Node]:
        """Makes a definition list."""
        entries = spec.load()
        made = nodes.definition_list()
        for order in entries.orders.values():
            term = nodes.term("", order.title, nodes.Text(" "), nodes.literal("", order.name))
            self.anchored(term, "order", order.name)
            body = nodes.definition("", paragraph(order.statement.format(**order.parameters)))
            if order.order_free_when:
                free = ", or when ".join(
                    calls(when, entries.facts) for when in order.order_free_when
                )
                body += paragraph(
                    f"Every order gives the same bits, so that none is kept, when {free}."
                )
            made += nodes.definition_list_item("", term, body)
        return [made]


class SpecRows(SpecDirective):
    """Every row with all that it says, a section for each op; links to rows come here."""

    def run(self) -> list[nodes.Node]:
        """Makes the sections."""
        entries = spec.load()
        self.found = row_evidence.by_row(row_evidence.ours(reports_of(self.config)))
        ops: dict[str, list[spec.Row]] = {}
        for row in sorted(entries.rows, key=lambda row: (row.kind != "op", row.op, row.id)):
            ops.setdefault(row.op, []).append(row)
        made: list[nodes.Node] = []
        for op, rows in ops.items():
            title = nodes.title("", "", nodes.literal("", op))
            section = nodes.section("", title, ids=[anchor("op", op)])
            section += nodes.definition_list("", *(self.entry(row, entries) for row in rows))
            made.append(section)
        return made

    def entry(self, row: spec.Row, entries: spec.Spec) -> nodes.definition_list_item:
        """One row."""
        term = nodes.term("", row.id, nodes.Text(" "), nodes.literal("", row.torch))
        self.anchored(term, "row", row.id)
        body = nodes.definition("", paragraph(row.condition))
        if row.statement:
            body += [paragraph(row.statement), *self.details(row)]
        if not row.active:
            body += paragraph(nodes.strong("", OUT_OF_SCOPE), f": {row.reason}")
        body += nodes.field_list("", *(field(name, text) for name, text in self.fields(row)))
        body += field_list_of_sources(row, entries)
        body += self.remarks(row, entries)
        return nodes.definition_list_item("", term, body)

    def fields(self, row: spec.Row) -> Iterable[tuple[str, nodes.paragraph]]:
        """The names and values of what a row says."""
        listed: dict[spec.Behaviour | None, list[str]] = {}
        for profile, behaviour in row.behaviour.items():
            listed.setdefault(behaviour, []).append(profile)
        for behaviour in (*spec.BEHAVIOURS, None):
            if behaviour in listed:
                name = PARTS[behaviour].verb.capitalize() if behaviour else "Not listed"
                links = joined(self.link("profile", profile) for profile in listed[behaviour])
                yield name, paragraph("under ", *links)
        if row.guarantee:
            yield "Guarantee", paragraph(f"`{row.guarantee}`")
        if row.mode_off:
            yield "With the mode off", paragraph(f"`{row.mode_off}`")
        if row.order:
            yield "Order", paragraph(self.link("order", row.order))
        if row.caller:
            yield "Alert names", paragraph(f"`{row.caller}`")
        if row.active:
            yield "Evidence", paragraph(row_evidence.line(row, self.found))


def field(name: str, body: nodes.paragraph) -> nodes.field:
    """One line of a field list."""
    return nodes.field("", nodes.field_name("", name), nodes.field_body("", body))


def field_list_of_sources(row: spec.Row, entries: spec.Spec) -> nodes.field_list:
    """Where the row comes from."""
    made = nodes.field_list()
    for source in row.sources:
        document = entries.documents[source.document]
        releases = joined(
            nodes.reference("", release, refuri=document.url.format(release=release))
            if document.url
            else nodes.literal("", release)
            for release in source.releases
        )
        made += field("Source", paragraph(f"{document.title}, ", *releases, f": “{source.phrase}”"))
    return made


def reports_of(config: Config) -> Path:
    """The folder of the reports that the site shows."""
    return Path(config.conformance_reports)


def note_spec(_: Sphinx, config: Config) -> None:
    """Has every page made anew when a file of the spec, or a report, came, went or changed.

    Raises:
        ExtensionError: A report is none, or speaks of what the spec does not know.
    """
    try:
        row_evidence.every_report(reports_of(config))
    except ReportError as error:
        raise ExtensionError(str(error)) from error
    digest = hashlib.sha256()
    folder = Path(spec.__file__).parent
    for file in (
        *sorted(Path(__file__).parent.glob("*.py")),
        *sorted(folder.rglob("*.toml")),
        *sorted(folder.rglob("*.py")),
        *sorted(reports_of(config).glob("*.json")),
    ):
        digest.update(file.read_bytes())
    config["spec_digest"] = digest.hexdigest()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives, the roles and the writing of the pages."""
    made: dict[str, type[SpecDirective]] = {
        "spec-profiles": SpecProfiles,
        "spec-profile": SpecProfile,
        "spec-list": SpecList,
        "spec-kind": SpecKind,
        "spec-out-of-scope": SpecOutOfScope,
        "spec-orders": SpecOrders,
        "spec-rows": SpecRows,
    }
    for name, directive in made.items():
        app.add_directive(name, directive)
    for kind in ("row", "profile", "order"):
        app.add_crossref_type(kind, kind, ref_nodeclass=nodes.literal)
    app.add_config_value("spec_digest", "", "env", str)
    app.add_config_value("conformance_reports", str(row_evidence.REPORTS), "env", str)
    app.connect("config-inited", note_spec)
    app.connect("builder-inited", write_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
