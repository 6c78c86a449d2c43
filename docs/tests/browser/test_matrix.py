"""The matrix in Chromium: its filters, their state in the address, the keyboard, and a phone."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

import answers
import page_facts
from docs.tests.browser.conftest import PHONE

LINES = list(page_facts.matrix_lines())
VISIBLE = "#matrix tbody tr:visible"
#: Facets, with the lines that they leave.
FACETS = {
    "device": ("CUDA", lambda line: "cuda" in line.devices),
    "direction": ("gradient", lambda line: line.direction == "backward"),
    "kind": ("JAX's primitives", lambda line: line.kind == "primitive"),
}


def names(lines):
    return [line.op for line in lines]


def shown(page):
    return page.locator(f"{VISIBLE} th").all_inner_texts()


@pytest.mark.parametrize("facet", FACETS)
def test_facet_leaves_its_lines(facet, server, visit) -> None:
    value, matches = FACETS[facet]
    page = visit(f"{server}/matrix.html")
    page.get_by_label(facet).select_option(value)
    assert shown(page) == names(line for line in LINES if matches(line))
    assert parse_qs(urlsplit(page.url).query) == {facet: [value]}


def test_text_finds_names(server, visit) -> None:
    page = visit(f"{server}/matrix.html")
    page.get_by_label("name").fill("scatter")
    assert shown(page) == names(line for line in LINES if "scatter" in line.op)
    page.get_by_role("button", name="Clear").click()
    assert len(shown(page)) == len(LINES)


def test_answer_is_looked_for_in_the_columns_that_are_shown(server, visit) -> None:
    page = visit(f"{server}/matrix.html")
    page.get_by_label("word").select_option("raises")
    column = [c.heading for c in page_facts.matrix_columns()]
    profile = page.locator("[name=profile]").input_value()
    kept = [i for i, heading in enumerate(column) if heading in (profile, "complete", "portable")]
    raising = (line for line in LINES if any("raises" in line.words[i] for i in kept))
    assert shown(page) == names(raising)


def test_link_to_a_view_shows_it(site, visit) -> None:
    page = visit(f"{site}/matrix.html?device=CUDA&direction=gradient&q=grid")
    own = [line for line in LINES if "grid" in line.op and line.direction == "backward"]
    own = [line for line in own if "cuda" in line.devices]
    assert own
    assert shown(page) == names(own)
    with page.expect_navigation():
        page.get_by_role("link", name="Link to this view").click()
    assert shown(page) == names(own)


@pytest.mark.parametrize("value", ["", "torch-1.10"])
def test_profile_chooses_the_columns(value, site, visit) -> None:
    page = visit(f"{site}/matrix.html?profile={value}")
    heads = page.locator("#matrix thead th:visible").all_inner_texts()[
        len(page_facts.MATRIX_HEADINGS) :
    ]
    every = [column.heading for column in page_facts.matrix_columns()]
    others = [head for head in every if head.startswith("torch-") and value not in ("", head)]
    assert heads == [head for head in every if head not in others]


def test_cells_and_names_lead_to_the_page_of_the_operation(server, visit) -> None:
    page = visit(f"{server}/matrix.html?q=index_add&profile=")
    row = page.locator(VISIBLE).first
    links = {link.get_attribute("href") for link in row.locator("a").all()}
    assert links == {"ops/index_add.html", "ops/index_add.html#every-answer"}
    assert row.locator("a").count() == len(page_facts.matrix_columns()) + 1


def test_keyboard_filters_and_moves_between_cells(server, visit) -> None:
    page = visit(f"{server}/matrix.html")
    page.get_by_label("name").focus()
    page.keyboard.type("index_add")
    focused = "document.activeElement.closest('th, td')?.cellIndex"
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == 0:
            break
    assert page.evaluate("document.activeElement.textContent") == "index_add"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == len(page_facts.MATRIX_HEADINGS)
    row = "document.activeElement.closest('tr').rowIndex"
    first = page.evaluate(row)
    page.keyboard.press("ArrowDown")
    assert page.evaluate(row) > first
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("ops/index_add.html"), wait_until="commit")


def test_phone_has_an_entry_for_each_operation(site, visit) -> None:
    page = visit(f"{site}/matrix.html?device=CUDA", width=PHONE)
    assert not page.locator("#matrix").is_visible()
    on_cuda = dict.fromkeys(line.op for line in LINES if "cuda" in line.devices)
    assert page.locator("#matrix-list summary").all_inner_texts() == list(on_cuda)
    entry = page.locator("#matrix-list details", has_text="index_add").first
    entry.locator("summary").focus()
    page.keyboard.press("Enter")
    entry.locator("dl").first.wait_for()
    words = {word for line in LINES if line.op == "index_add" for own in line.words for word in own}
    assert set(entry.locator("dd b").all_inner_texts()) <= words
    assert entry.get_by_role("link").get_attribute("href") == "ops/index_add.html"
    page.get_by_label("name").fill("bincount")
    assert page.locator("#matrix-list summary").all_inner_texts() == ["bincount"]


def test_without_scripts_the_whole_table_is_there(site, visit) -> None:
    page = visit(f"{site}/matrix.html", java_script_enabled=False)
    assert shown(page) == names(LINES)
    assert page.locator("#matrix-form").count() == 0
    words = set(page.locator(f"{VISIBLE} b").all_inner_texts())
    assert words <= set(answers.WORDS)
    assert {word for line in LINES for own in line.words for word in own} == words
