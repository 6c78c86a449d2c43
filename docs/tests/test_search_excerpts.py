"""The scripts with the text of each page, from which the search takes its excerpts."""

import json
import re
from pathlib import Path

from docutils import nodes

import search_excerpts

HTML = Path(__file__).parents[1] / "_build" / "html"
FORM = re.compile(r"addExcerpts\((.*)\);\n", re.DOTALL)


def test_each_result_has_a_script_with_its_text() -> None:
    index = (HTML / "searchindex.js").read_text(encoding="utf-8")
    pages = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["docnames"]
    assert "index" in pages
    for page in pages:
        text = (HTML / search_excerpts.FOLDER / f"{page}.js").read_text(encoding="utf-8")
        found = FORM.fullmatch(text)
        assert found
        name, sections = json.loads(found[1])
        assert name == page
        assert all(ids for ids, _ in sections)


def test_sections_have_their_own_text() -> None:
    inner = nodes.section("", nodes.title("", "Inner"), nodes.paragraph("", "two"), ids=["b"])
    words = nodes.paragraph("", "", nodes.Text("one "), nodes.literal("", "word"))
    outer = nodes.section("", nodes.title("", "Outer"), words, inner, ids=["a"])
    raw = nodes.raw("", "<b>hidden</b>", format="html")
    outer.insert(1, raw)
    document = nodes.document(None, None)  # type: ignore[arg-type]
    document += outer
    assert search_excerpts.sections(document) == [(["a"], "one word"), (["b"], "two")]
