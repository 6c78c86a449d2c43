"""Renders facts by the templates of ``docs/_templates``, and links the entries of the spec.

The template ``directives/NAME.md`` is the directive ``NAME``. Its Markdown takes the place of the
directive, so that no page repeats by hand what a row, a report or a benchmark states. A template
has the ``argument``, the ``options`` and the ``lines`` of the directive, the spec as ``rules``, and
the modules of ``MODULES``.

The roles ``row``, ``profile`` and ``order`` link to an entry of the spec, and an unknown name is a
warning. The role ``entry`` is the target of these links. So the second line links to the first::

    {entry}`row R0059`R0059 `torch.cumsum`

    The row {row}`R0059` decides `cumsum`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar, cast

import jinja2
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import answers
import costs
import page_facts
import pictures
import row_evidence
import row_lists
import spec
from conformance.hunt import memory
from conformance.reporting import pytorch_differences
from spec import engines, english, releases_of_jax

FOLDER = Path(__file__).parents[1] / "_templates"
#: The modules whose functions a template may call.
MODULES = {
    "answers": answers,
    "costs": costs,
    "engines": engines,
    "english": english,
    "evidence": row_evidence,
    "lists": row_lists,
    "memory": memory,
    "pages": page_facts,
    "pictures": pictures,
    "pytorch_differences": pytorch_differences,
    "releases_of_jax": releases_of_jax,
    "spec": spec,
}


def prose(text: str) -> str:
    """Returns the Markdown of a text in which `backticks` mark code, and nothing else is a mark."""
    pieces = re.split("(`[^`]+`)", text)
    # Every second piece is code.
    pieces[::2] = [re.sub(r"([\\*_\[\]<>|])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def role(name: str, kind: str) -> str:
    """Returns a link to an entry of the spec: the role `row` with the id of a row."""
    return f"{{{kind}}}`{name}`"


_ENVIRONMENT = jinja2.Environment(  # noqa: S701  # The results are Markdown.
    loader=jinja2.FileSystemLoader(FOLDER),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.do"],
)
_ENVIRONMENT.filters.update(prose=prose, role=role)
_ENVIRONMENT.globals.update(MODULES, rules=spec.load())


def render(name: str, **facts: Any) -> str:
    """Returns the Markdown of a template."""
    return _ENVIRONMENT.get_template(name).render(facts).strip() + "\n"


class Template(SphinxDirective):
    """A directive whose content is the Markdown of the template of its name."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[OptionSpec | None] = {
        "device": directives.unchanged_required,
        "named": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Renders the template. A name that it cannot find is an error of the page."""
        argument = self.arguments[0] if self.arguments else ""
        name = f"directives/{self.name}.md"
        facts = {"argument": argument, "options": self.options, "lines": list(self.content)}
        try:
            text = render(name, **facts)
        except (LookupError, ValueError, jinja2.UndefinedError) as error:
            raise self.error(f"{self.name} {argument}: {error}") from error
        container = nodes.container()
        lines = StringList(text.splitlines(), str(FOLDER / name))
        self.state.nested_parse(lines, 0, container, match_titles=True)
        return list(container.children)


class Entry(SphinxRole):
    """The target of links to an entry of the spec, by its kind and its name."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Makes the target. A row has the HTML id that it has in the spec."""
        kind, name = self.text.split()
        id = name if kind == "row" else nodes.make_id(f"{kind}-{name}")
        target = nodes.target("", "", ids=[id])
        domain = cast("StandardDomain", self.env.get_domain("std"))
        domain.note_object(kind, name, id, location=target)
        return [target], []


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives and the roles."""
    for file in FOLDER.glob("directives/*.md"):
        app.add_directive(file.stem, Template)
    for kind in ("row", "profile", "order"):
        app.add_crossref_type(kind, kind, ref_nodeclass=nodes.literal)
    app.add_role("entry", Entry())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
