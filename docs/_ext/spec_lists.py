"""Renders the spec on the site, so that no page repeats by hand what a row states.

Directives: ``spec-profiles``, ``spec-profile``, ``spec-list``, ``spec-unlisted``, ``spec-kind``,
``spec-out-of-scope``, ``spec-orders`` and ``spec-rows``. Roles: ``row``, ``profile`` and ``order``
link to an entry by its name, and an unknown name is a warning. ``spec_pages`` writes the pages of
the profiles. A page that has::

    ```{spec-list}
    :profile: torch-2.12
    :behaviour: raise
    :device: cuda
    ```

    The row {row}`R0059` decides `cumsum`.

gets a bullet for each such row, and a link to the entry of R0059 on the page with ``spec-rows``::

    - torch.cumsum — when called on a CUDA array and the dtype is floating or complex (R0059)
    - ...

    The row R0059 decides cumsum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import row_evidence
import spec
from conformance.reporting.report import ReportError
from spec import english
from spec_nodes import (
    SpecDirective,
    anchor,
    condition_phrase,
    field,
    field_list_of_sources,
    paragraph,
    with_commas,
)
from spec_pages import OUT_OF_SCOPE, UNLISTED, not_listed, unlisted_rows, write_pages


class SpecProfiles(SpecDirective):
    """A bullet list of all profiles: a link to the page of each, and its statement."""

    def run(self) -> list[nodes.Node]:
        bullets = nodes.bullet_list()
        for profile in spec.load().profiles.values():
            default = " This is the default." if profile.default else ""
            line = paragraph(self.link("profile", profile.name), f" — {profile.statement}{default}")
            bullets += nodes.list_item("", line)
        return [bullets]


class SpecProfile(SpecDirective):
    """The statement of one profile, and the target of links to it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        profile = self.profile(spec.load(), self.arguments[0])
        default = " It is the default profile." if profile.default else ""
        statement = paragraph(f"{profile.statement}{default}")
        self.anchor_entry(statement, "profile", profile.name)
        return [statement]


class SpecList(SpecDirective):
    """A bullet list of the active rows with one behaviour under one profile."""

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
            lambda row: [self.summary(row), *self.remarks(row, entries)],
        )


class SpecUnlisted(SpecDirective):
    """A bullet list of the rows that decide calls which a profile does not list, by the effect."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec | None] = {"profile": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Makes a bullet list."""
        entries = spec.load()
        effects = [effect for effect in UNLISTED if effect == self.arguments[0]]
        if not effects:
            raise self.error(
                f"no effect {self.arguments[0]!r} to list; there are {sorted(UNLISTED)}"
            )
        profile = self.profile(entries, self.options.get("profile", ""))
        rows = unlisted_rows(entries, profile.name, effects[0])
        return self.items(rows, lambda row: [self.summary(row), *self.remarks(row, entries)])


class SpecKind(SpecDirective):
    """A bullet list of the active rows of a kind other than ``op``, of one profile or of all."""

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
            lambda row: [self.statement(row), *self.details(row)],
        )

    def statement(self, row: spec.Row) -> nodes.paragraph:
        """Returns the statement of a row, with a link to the whole row."""
        return paragraph(
            nodes.literal("", row.op), f" — {row.statement} (", self.link("row", row.id), ")"
        )


class SpecOutOfScope(SpecDirective):
    """A bullet list of the rows that no JAX platform can meet, of one profile or of all."""

    option_spec: ClassVar[OptionSpec | None] = {"profile": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Makes a bullet list."""
        entries = spec.load()
        name = self.options.get("profile")
        profile = self.profile(entries, name).name if name else None
        return self.items(
            entries.select(profile=profile, active=False),
            lambda row: [self.summary(row), paragraph(row.reason or "")],
        )


class SpecOrders(SpecDirective):
    """A definition list of all orders, with the numbers of their statements filled in."""

    def run(self) -> list[nodes.Node]:
        entries = spec.load()
        definitions = nodes.definition_list()
        for order in entries.orders.values():
            term = nodes.term("", order.title, nodes.Text(" "), nodes.literal("", order.name))
            self.anchor_entry(term, "order", order.name)
            body = nodes.definition("", paragraph(order.statement))
            if order.order_free_when:
                conditions = ", or when ".join(
                    condition_phrase(when, entries.facts) for when in order.order_free_when
                )
                body += paragraph(
                    f"When {conditions}, every order gives the same bits. The fast path is"
                    " taken then."
                )
            definitions += nodes.definition_list_item("", term, body)
        return [definitions]


class SpecRows(SpecDirective):
    """All rows in full, a section for each op, and the targets of links to rows."""

    def run(self) -> list[nodes.Node]:
        entries = spec.load()
        self.evidence = row_evidence.by_row(row_evidence.our_reports(reports_of(self.config)))
        ops: dict[str, list[spec.Row]] = {}
        for row in sorted(entries.rows, key=lambda row: (row.kind != "op", row.op, row.id)):
            ops.setdefault(row.op, []).append(row)
        sections: list[nodes.Node] = []
        for op, rows in ops.items():
            title = nodes.title("", "", nodes.literal("", op))
            section = nodes.section("", title, ids=[anchor("op", op)])
            if f"ops/{op}" in self.env.found_docs:
                section += paragraph(
                    "All answers about it: ", self.page(f"ops/{op}", nodes.inline("", op))
                )
            section += nodes.definition_list("", *(self.entry(row, entries) for row in rows))
            sections.append(section)
        return sections

    def entry(self, row: spec.Row, entries: spec.Spec) -> nodes.definition_list_item:
        """Returns one row in full."""
        term = nodes.term("", row.id, nodes.Text(" "), nodes.literal("", row.torch))
        self.anchor_entry(term, "row", row.id)
        body = nodes.definition("", paragraph(row.condition))
        if row.statement:
            body += [paragraph(row.statement), *self.details(row)]
        if not row.active:
            body += paragraph(nodes.strong("", OUT_OF_SCOPE), f": {row.reason}")
        body += nodes.field_list("", *(field(name, text) for name, text in self.fields(row)))
        body += field_list_of_sources(row.sources, entries)
        body += self.remarks(row, entries)
        return nodes.definition_list_item("", term, body)

    def fields(self, row: spec.Row) -> Iterable[tuple[str, nodes.paragraph]]:
        """Yields the names and values of the fields of a row."""
        profiles: dict[tuple[str, str], list[str]] = {}
        for profile, behaviour in row.behaviour.items():
            line = (
                (english.verb(behaviour).capitalize(), "")
                if behaviour
                else not_listed(row, profile)
            )
            profiles.setdefault(line, []).append(profile)
        for (heading, text), names in profiles.items():
            links = with_commas(self.link("profile", name) for name in names)
            yield heading, paragraph("under ", *links, *([f": {text}"] if text else []))
        if row.guarantee:
            yield "Guarantee", paragraph(f"`{row.guarantee}`")
        portable = spec.portable_answer(row)
        if portable:
            yield "Under portable", paragraph(english.PORTABLE[portable])
        if row.mode_off:
            yield "With the mode off", paragraph(f"`{row.mode_off}`")
        if row.covers_backward:
            yield "Decides also", paragraph("the gradient, which is the same computation")
        if row.order:
            yield "Order", paragraph(self.link("order", row.order))
        callers: dict[str, list[str]] = {}
        for profile, caller in row.callers.items():
            callers.setdefault(caller, []).append(profile)
        for caller, names in callers.items():
            links = with_commas(self.link("profile", name) for name in names)
            under: list[str | nodes.Node] = [" under ", *links] if len(callers) > 1 else []
            yield "Alert names", paragraph(f"`{caller}`", *under)
        if row.message:
            yield "PyTorch's error begins", paragraph(f"“{row.message}”")
        if row.active:
            yield "Evidence", paragraph(row_evidence.line(row, self.evidence))


def reports_of(config: Config) -> Path:
    """Returns the folder of the reports that the site shows."""
    return Path(config.conformance_reports)


def note_spec(_: Sphinx, config: Config) -> None:
    """Checks the reports, and makes Sphinx read all pages again if the spec or a report changed.

    Raises:
        ExtensionError: A report cannot be read, or names a row or device that the spec does not
            have.
    """
    try:
        row_evidence.every_report(reports_of(config))
    except ReportError as error:
        raise ExtensionError(str(error)) from error
    digest = hashlib.sha256()
    folder = Path(spec.__file__).parent
    for file in (
        *sorted(Path(__file__).parent.rglob("*.py")),
        *sorted(folder.rglob("*.toml")),
        *sorted(folder.rglob("*.py")),
        *sorted(reports_of(config).glob("*.json")),
    ):
        digest.update(file.read_bytes())
    config["spec_digest"] = digest.hexdigest()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives, the roles and the writing of the pages."""
    directives_by_name: dict[str, type[SpecDirective]] = {
        "spec-profiles": SpecProfiles,
        "spec-profile": SpecProfile,
        "spec-list": SpecList,
        "spec-unlisted": SpecUnlisted,
        "spec-kind": SpecKind,
        "spec-out-of-scope": SpecOutOfScope,
        "spec-orders": SpecOrders,
        "spec-rows": SpecRows,
    }
    for name, directive in directives_by_name.items():
        app.add_directive(name, directive)
    for kind in ("row", "profile", "order"):
        app.add_crossref_type(kind, kind, ref_nodeclass=nodes.literal)
    app.add_config_value("spec_digest", "", "env", str)
    app.add_config_value("conformance_reports", str(row_evidence.REPORTS), "env", str)
    app.connect("config-inited", note_spec)
    app.connect("builder-inited", write_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
