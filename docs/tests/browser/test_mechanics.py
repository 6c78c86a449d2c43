"""Print, and what keys reach."""

from docs.tests.browser.conftest import PHONE


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
