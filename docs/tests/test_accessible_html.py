"""The built pages have marks for screen readers, search engines and the search."""

import re
from pathlib import Path

HTML = Path(__file__).parents[1] / "_build" / "html"
PAGES = sorted(HTML.rglob("*.html"))


def test_each_page_has_a_description_and_an_icon() -> None:
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        assert re.search('<meta name="description" content="[^"]{20,}', text), file
        assert 'rel="shortcut icon"' in text, file


def test_each_table_has_a_caption_and_scopes() -> None:
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        # Sphinx makes the indices of names.
        tables = [tag for tag in re.findall("<table[^>]*>", text) if "index" not in tag]
        assert text.count("<caption") == len(tables), file
        assert len(re.findall("<th[ >]", text)) == text.count("scope="), file
