"""The page about JAX's own primitives shows each row once, under its effect."""

import html
import re
from collections.abc import Callable

import primitive_lists
import spec

SPEC = spec.load()


def test_every_row_has_one_anchor(page_html: Callable[[str], str]) -> None:
    anchors = re.findall(r' id="([^"]+)"', page_html("primitives"))
    rows = [row.id for row in SPEC.primitives]
    assert sorted(id for id in anchors if id in rows) == sorted(rows)


def test_a_section_shows_the_rows_of_its_effect(page_html: Callable[[str], str]) -> None:
    text = page_html("primitives")
    starts = [text.index(f'id="{row.id}"') for row in primitive_lists.rows_with("unknown", "cuda")]
    assert starts
    begin, end = text.index('id="unknown"'), text.index('id="the-same-bits-anyway"')
    assert all(begin < start < end for start in starts)


def test_the_page_shows_what_to_do(page_html: Callable[[str], str]) -> None:
    text = html.unescape(re.sub(r"<[^>]+>", "", page_html("primitives")))
    for row in primitive_lists.rows_with("unknown", "cuda"):
        assert row.remedy
        assert row.remedy.replace("`", "") in text


def test_each_class_of_portable_primitives_is_listed_with_its_primitives(
    page_html: Callable[[str], str],
) -> None:
    text = page_html("the-same-bits-everywhere")
    terms = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", text, re.DOTALL)
    shown = {term: set(re.findall(r'<span class="pre">(.*?)</span>', body)) for term, body in terms}
    for found in SPEC.portable.values():
        title = found.name.replace("_", " ").capitalize()
        assert set(found.primitives) <= shown[title]
