"""Pages in Chromium: no error on the console, no overflow on a phone, no fault for axe-core."""

from pathlib import Path
from typing import Any

import pytest

from docs.tests.browser.conftest import DESKTOP, HTML, PHONE


def pages() -> list[str]:
    """Returns the pages at the root, and of each folder the smallest and the largest page."""
    folders: dict[Path, list[Path]] = {}
    for file in sorted(HTML.rglob("*.html")):
        folders.setdefault(file.parent, []).append(file)
    found = folders.pop(HTML, [])
    for files in folders.values():
        by_size = sorted(files, key=lambda file: file.stat().st_size)
        found += {by_size[0], by_size[-1]}
    return sorted(file.relative_to(HTML).as_posix() for file in found)


PAGES = pages()
#: Pages of every form. All other pages have the same colours, links and scripts.
FORMS = [page for page in PAGES if "/" in page or page in ("index.html", "matrix.html", "api.html")]
#: Lists are cut to this number of entries. axe-core compares each entry with every other one: for
#: the hundreds of entries on the page of the library, it takes 40 seconds.
ENTRIES = 8
CUT = f"""for (const parent of document.querySelectorAll("article, article :not(tr)"))
    while (parent.children.length > {ENTRIES}) parent.lastElementChild.remove();"""
#: The dark theme has other colours, and nothing else that axe-core looks at.
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
#: Pages of one form have the same colours, which take most of the time.
STRUCTURE = {"rules": {"color-contrast": {"enabled": False}}}
#: The width by which the page, or its column of text, overflows: the theme lets both scroll.
EXCESS = """Math.max(...[...document.querySelectorAll("html, .content")]
    .map((box) => box.scrollWidth - Math.min(box.clientWidth, window.innerWidth)))"""


def test_site_is_built() -> None:
    assert "index.html" in PAGES


def faults(opened, options: dict[str, Any] | None = None) -> list[str]:
    """Returns what axe-core finds on a page."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - absent elsewhere.

    opened.evaluate(CUT)
    settings = {"resultTypes": ["violations"], "preload": False, **(options or {})}
    found = Axe().run(opened, options=settings).response["violations"]
    return [f"{fault['id']}: {node['html']}" for fault in found for node in fault["nodes"]]


@pytest.mark.parametrize("page", PAGES)
def test_page_from_a_server(page, server, visit) -> None:
    opened = visit(f"{server}/{page}", width=PHONE)
    assert opened.evaluate(EXCESS) <= 0
    if page in FORMS:
        opened.emulate_media(color_scheme="dark")
        assert faults(opened, CONTRAST) == []
        opened.emulate_media(color_scheme="light")
    opened.set_viewport_size({"width": DESKTOP, "height": 844})
    assert faults(opened, None if page in FORMS else STRUCTURE) == []


@pytest.mark.parametrize("page", FORMS)
def test_page_from_a_file(page, visit) -> None:
    assert visit(f"{HTML.as_uri()}/{page}", width=PHONE).evaluate(EXCESS) <= 0


def test_search_is_accessible(server, visit) -> None:
    opened = visit(f"{server}/search.html?q=order")
    opened.locator("p.excerpt").first.wait_for()
    assert faults(opened) == []


def test_the_theme_that_was_chosen_wins(server, visit) -> None:
    opened = visit(f"{server}/index.html", scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = opened.evaluate(colour)
    opened.locator(".theme-toggle-content button").click()
    opened.locator("body[data-theme=light]").wait_for()
    assert opened.evaluate(colour) != dark
