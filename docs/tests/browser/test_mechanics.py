"""What every page has: a name for tables, a description, an icon, print, and what keys reach."""

import re

from docs.tests.browser.conftest import HTML, PHONE


def test_each_page_has_a_description_and_an_icon() -> None:
    for file in HTML.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert '<meta name="description" content="' in text, file
        assert 'rel="shortcut icon"' in text, file


def test_each_table_has_a_caption_and_scopes() -> None:
    for file in HTML.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        tables = [tag for tag in re.findall("<table[^>]*>", text) if "index" not in tag]
        assert text.count("<caption") == len(tables), file
        assert text.count("<th ") + text.count("<th>") == text.count("scope="), file


def test_keys_reach_what_is_wider_than_its_place(server, visit) -> None:
    page = visit(f"{server}/your-program.html", width=PHONE)
    reached = """[...document.querySelectorAll(".highlight pre, .table-wrapper")]
        .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.tabIndex)"""
    assert set(page.evaluate(reached)) == {0}


def test_print_has_the_text_alone(server, visit) -> None:
    page = visit(f"{server}/your-program.html")
    page.emulate_media(media="print")
    assert not page.locator(".sidebar-drawer").is_visible()
    assert not page.locator(".headerlink").first.is_visible()
    assert page.get_by_role("main").is_visible()
    width = page.get_by_role("main").bounding_box()["width"]
    assert width > 0.8 * page.viewport_size["width"]
