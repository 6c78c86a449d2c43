"""The built site against the spec; `nox -s docs` builds it first."""

import collections
import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.errors import SphinxWarning
from sphinx.util.docutils import docutils_namespace, patch_docutils

import spec
import spec_pages

HTML = Path(__file__).parents[1] / "_build" / "html"
SPEC = spec.load()


class Entries(HTMLParser):
    """Collects the links to rows in list items, and every id, each under its h2 heading."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.heading = ""
        self.in_heading = False
        self.items = 0
        self.feed((HTML / page / "index.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag == "h2":
            self.heading, self.in_heading = "", True
        self.items += tag == "li"
        row = re.search(r"/rows/#(\w+)$", values.get("href") or "")
        if tag == "a" and row and self.items:
            self.links.append((self.heading, row[1]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "h2":
            self.in_heading = False
        self.items -= tag == "li"

    def handle_data(self, data: str) -> None:
        # The rest of a heading is the mark that links to it.
        if self.in_heading and data != "¶":
            self.heading += data


def listed(profile: str) -> Iterator[tuple[str, str]]:
    """The heading and the id of every row that a profile's page has to show."""
    for row in SPEC.rows:
        behaviour = row.behaviour[profile]
        if behaviour is not None and not row.active:
            yield spec_pages.OUT_OF_SCOPE, row.id
        elif behaviour is not None:
            part = spec_pages.OPTIONS.get(row.kind, spec_pages.PARTS[behaviour])
            yield part.heading, row.id


@pytest.mark.parametrize("profile", SPEC.profiles)
def test_page_of_a_profile_lists_each_row_once_under_its_behaviour(profile: str) -> None:
    shown = Entries(f"_generated/{profile}").links
    assert collections.Counter(shown) == collections.Counter(listed(profile))


def test_every_row_has_one_anchor() -> None:
    anchors = collections.Counter(Entries("rows").ids)
    assert {row.id: anchors[row.id] for row in SPEC.rows} == {row.id: 1 for row in SPEC.rows}


def test_out_of_scope_lists_every_such_row_once() -> None:
    shown = [row for _, row in Entries("out-of-scope").links]
    assert sorted(shown) == sorted(row.id for row in SPEC.rows if not row.active)


@pytest.mark.parametrize("order", SPEC.orders.values(), ids=lambda order: order.name)
def test_statement_of_an_order_has_its_numbers(order: spec.Order) -> None:
    page = (HTML / "orders" / "index.html").read_text(encoding="utf-8")
    assert html.escape(order.statement.format(**order.parameters), quote=False) in page


def build(folder: Path, text: str) -> None:
    """Builds a site of one page beside the spec's rows, where every warning is an error."""
    source = folder / "source"
    source.mkdir()
    (source / "index.md").write_text(
        f"# Site\n\n{text}\n\n```{{spec-rows}}\n```\n\n```{{spec-orders}}\n```\n\n"
        "```{toctree}\n:glob:\n\n_generated/*\n```\n"
    )
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(source),
            None,
            str(folder / "html"),
            str(folder / "doctrees"),
            "html",
            confoverrides={"extensions": ["myst_parser", "spec_lists"], "nitpicky": True},
            status=None,
            warning=None,
            warningiserror=True,
            exception_on_warning=True,
        )
        app.build()


def test_role_links_to_a_row(tmp_path: Path) -> None:
    row = SPEC.rows[0].id
    build(tmp_path, f"See {{row}}`{row}`.")
    assert f'href="#{row}"' in (tmp_path / "html" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("See {row}`nothing`.", "'row' reference target not found: nothing"),
        ("See {order}`nothing`.", "'order' reference target not found: nothing"),
        ("```{spec-list}\n:profile: nothing\n:behaviour: raise\n```", "no profile 'nothing'"),
        ("```{spec-list}\n:behaviour: raise\n```", "needs the option :profile:"),
    ],
)
def test_an_unknown_name_fails_the_build(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SphinxWarning, match=re.escape(message)):
        build(tmp_path, text)
