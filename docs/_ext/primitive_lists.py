"""Renders what the mode does to JAX's primitives: ``spec-primitives``, ``portable-primitives``."""

from __future__ import annotations

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import spec
from spec import english, releases_of_jax
from spec_nodes import SpecDirective, field, field_list_of_sources, paragraph

#: The effects that a page can list.
EFFECTS = ("ordered", "raises", "unknown", "same")


def rows_with(effect: str, device: str, *, named: bool = False) -> list[spec.Primitive]:
    """Returns the rows that have one effect on a device, by the name of the primitive.

    Args:
        effect: The effect.
        device: Name of the device.
        named: Whether to leave out rows about any device.
    """
    rows = [
        row
        for row in spec.load().primitives
        if row.active
        and (row.device == device if named else row.covers(device))
        and spec.effect_of_primitive(row, device) == effect
    ]
    return sorted(rows, key=lambda row: (row.op, row.id))


class SpecPrimitives(SpecDirective):
    """A definition list of the rows about primitives that have one effect on a device."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec | None] = {
        "device": directives.unchanged_required,
        "named": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Makes a definition list."""
        effect = self.arguments[0]
        if effect not in EFFECTS:
            raise self.error(f"no effect {effect!r} to list; there are {EFFECTS}")
        device = self.options.get("device", "")
        if device not in spec.load().devices:
            raise self.error(f"no device {device!r}; there are {sorted(spec.load().devices)}")
        definitions = nodes.definition_list()
        for row in rows_with(effect, device, named="named" in self.options):
            definitions += self.entry(row)
        return [definitions]

    def entry(self, row: spec.Primitive) -> nodes.definition_list_item:
        """Returns one row in full."""
        term = nodes.term("", "", nodes.literal("", row.op), nodes.Text(f" {row.id}"))
        self.anchor_entry(term, "row", row.id)
        names = ", ".join(f"`{name}`" for name in row.primitives)
        body = nodes.definition("", paragraph(f"{names}: {row.condition}. {row.evidence or ''}"))
        fields = [field("To do", paragraph(row.remedy))] if row.remedy else []
        if row.order:
            fields.append(field("Order", paragraph(self.link("order", row.order))))
        if row.guarantee:
            fields.append(field("Guarantee", paragraph(f"`{row.guarantee}`")))
        classes = english.portabilities(row.primitives, spec.portable_classes(row))
        fields.append(field("Under portable", paragraph(" ".join(classes))))
        body += nodes.field_list("", *fields)
        body += field_list_of_sources(row.sources, spec.load())
        return nodes.definition_list_item("", term, body)


class PortablePrimitives(SpecDirective):
    """A definition list of the classes of primitives with one answer under ``portable``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Makes a definition list."""
        answer = self.arguments[0]
        entries = spec.load()
        answers = sorted({each.answer for each in entries.portable.values()})
        if answer not in answers:
            raise self.error(f"no answer {answer!r} to list; there are {answers}")
        definitions = nodes.definition_list()
        for found in entries.portable.values():
            if found.answer == answer:
                definitions += self.entry(found)
        return [definitions]

    def entry(self, found: spec.Portability) -> nodes.definition_list_item:
        """Returns one class in full."""
        names = ", ".join(f"`{name}`" for name in sorted(found.primitives))
        body = nodes.definition("", paragraph(english.portability(found)), paragraph(names))
        if found.remedy:
            body += nodes.field_list("", field("To do", paragraph(found.remedy)))
        title = found.name.replace("_", " ").capitalize()
        return nodes.definition_list_item("", nodes.term("", title), body)


class ReleasesOfJax(SpecDirective):
    """A list of JAX's functions that have other bits in another release."""

    def run(self) -> list[nodes.Node]:
        """Makes a list with the derivatives that differ, and those that do at borders."""
        items = nodes.bullet_list()
        for found in releases_of_jax.functions():
            if found.orders:
                items += nodes.list_item("", paragraph(f"`{found.name}`: {_orders(found)}"))
        return [items]


def _orders(found: releases_of_jax.Otherwise) -> str:
    """Returns the orders of the derivatives of a function that differ, in English."""
    kinds = {"": found.bits, " at borders": found.borders, " not tried": found.untried}
    return "; ".join(", ".join(map(str, orders)) + kind for kind, orders in kinds.items() if orders)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.add_directive("spec-primitives", SpecPrimitives)
    app.add_directive("portable-primitives", PortablePrimitives)
    app.add_directive("releases-of-jax", ReleasesOfJax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
