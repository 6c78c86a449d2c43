"""Guides in a browser: tables are sorted, a report is shown, and keys reach wide boxes."""

from pathlib import Path

import pytest

from docs.tests.browser.conftest import PHONE

REPORT = Path(__file__).parents[3] / "conformance" / "reports" / "cpu.json"


@pytest.mark.once
def test_a_heading_sorts_the_differences(site, visit) -> None:
    page = visit(f"{site}/differences.html")
    cells = page.locator("table.sortable").first.locator("tbody tr td:first-child")
    before = cells.all_inner_texts()
    heading = page.locator("table.sortable th button").first
    heading.press("Enter")
    risen = cells.all_inner_texts()
    assert risen == sorted(before, key=str.lower)
    heading.press("Enter")
    assert cells.all_inner_texts() == risen[::-1]
    assert page.locator('th[aria-sort="descending"]').count() == 1


@pytest.mark.once
def test_a_report_is_shown_and_nothing_leaves_the_browser(site, visit, tmp_path: Path) -> None:
    page = visit(f"{site}/report-your-gpu.html")
    page.wait_for_load_state("networkidle")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.set_input_files("#report-file", REPORT)
    shown = page.locator(".report-shown")
    shown.get_by_text("passed, 0 failed").wait_for()
    assert "jaxlib" in shown.inner_text()
    (other := tmp_path / "other.json").write_text('{"format": "<b>1</b>"}', encoding="utf-8")
    page.set_input_files("#report-file", other)
    shown.get_by_text("other.json cannot be shown").wait_for()
    assert sent == []


@pytest.mark.once
def test_a_report_can_be_dragged_to_the_page(server, visit) -> None:
    page = visit(f"{server}/report-your-gpu.html")
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "gpu.json"));
            document.body.dispatchEvent(
                new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        REPORT.read_text(encoding="utf-8"),
    )
    page.locator(".report-shown table").first.wait_for()


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
