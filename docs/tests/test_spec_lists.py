"""The directives and roles of the spec: on the built site, and in a site of one page."""

import collections
import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.errors import SphinxWarning
from sphinx.util.docutils import docutils_namespace, patch_docutils

import spec

SPEC = spec.load()


def test_every_row_has_one_anchor(page_html: Callable[[str], str]) -> None:
    anchors = collections.Counter(re.findall(r' id="([^"]+)"', page_html("rows")))
    assert {row.id: anchors[row.id] for row in SPEC.rows} == {row.id: 1 for row in SPEC.rows}


@pytest.mark.parametrize("order", SPEC.orders.values(), ids=lambda order: order.name)
def test_the_page_has_the_statement_of_an_order(
    order: spec.Order, page_html: Callable[[str], str]
) -> None:
    statement = order.statement.replace("`", "")
    assert statement in html.unescape(re.sub(r"<[^>]+>", "", page_html("orders")))


def test_the_page_shows_the_source_of_an_erratum(page_html: Callable[[str], str]) -> None:
    assert "inclusive_deterministic_scan" in page_html("rows")
    assert "libtorch_cuda.so" in page_html("rows")


def build(folder: Path, text: str) -> None:
    """Builds a site of one page and of the profiles, where every warning is an error."""
    source = folder / "source"
    source.mkdir()
    (source / "index.md").write_text(
        f"# Site\n\n{text}\n\n```{{toctree}}\n:glob:\n\nprofiles/*\n```\n", encoding="utf-8"
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


def test_role_links_to_a_row(page_html: Callable[[str], str]) -> None:
    assert 'href="rows.html#R0001"' in page_html("glossary")


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
