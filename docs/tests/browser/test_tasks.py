"""A stranger finds answers in Chromium by three clicks or one search from the first page.

The questions come from a review in which a stranger found two answers of nine.
"""

import re
from typing import NamedTuple

import pytest


class Task(NamedTuple):
    """A question of a stranger, whose page has to contain an answer (a regular expression).

    Links are clicked, by the start of their name, or words are searched for; the first result
    counts.
    """

    page: str
    answer: str
    clicks: tuple[str, ...] = ()
    search: str = ""


GRID = "ops/nn.functional.grid_sample"
TASKS = {
    "does the gradient of grid_sample raise on CUDA": Task(
        GRID, "CUDA[^§]*raises", search="grid_sample"
    ),
    "does the gradient of grid_sample raise on CUDA, by clicks": Task(
        GRID, "CUDA[^§]*raises", ("Look up an operation", "nn.functional.grid_sample")
    ),
    "the cost of the ordered path": Task("cost", r"\d", ("Know the cost",)),
    "the cost of the ordered path, by its words": Task("cost", r"\d", search="slow"),
    "the cost of one op": Task(
        "ops/index_add", r"what it costs", ("Look up an operation", "index_add")
    ),
    "how do we know": Task("ops/index_add", r"how we know", ("Look up an operation", "index_add")),
    "are batch norm, dropout and attention covered": Task(
        "not-covered", "batch norm[^§]*dropout[^§]*attention", ("Batch norm",)
    ),
    "is batch norm covered": Task("not-covered", "batch norm", search="batch norm"),
    "a reproducible run with Flax": Task("your-program", "flax", search="flax"),
    "a reproducible run with Flax, by clicks": Task(
        "your-program", "flax", ("Make my program repeat", "Your program")
    ),
    "determinism for my own op": Task("writing-an-op", "kernel", ("Write an op",)),
    "how do the documents of PyTorch differ from its code": Task(
        "differences", "documents?[^§]*code", ("Come from PyTorch", "Differences")
    ),
    "how do I report my GPU": Task("report-your-gpu", "python -m conformance", ("Report my GPU",)),
    "does the suite run on my library": Task("third-parties", "conformance", ("Test my library",)),
}
#: Names that a stranger has from an error or from JAX, and the page that explains each.
SEARCHES = {
    "cumsum_cuda_kernel": "ops/cumsum",
    "scatter_add": "ops/scatter_add",
    "lax.scatter_add": "primitives/lax.scatter_add",
    "segment_sum": "ops/index_add",
    "conv_general_dilated": "primitives/lax.conv_general_dilated",
}
#: Words of guides, and the guide whose title or headings have each.
WORDS = {
    "sharding": "your-program",
    "attention": "not-covered",
    "cost": "cost",
    "gpu": "report-your-gpu",
}


@pytest.mark.parametrize("question", TASKS)
def test_stranger_finds_the_answer(question, server, visit) -> None:
    task = TASKS[question]
    page = visit(f"{server}/index.html")
    assert bool(task.clicks) != bool(task.search)
    assert len(task.clicks) <= 3
    for name in task.clicks:
        click(page, name)
    if task.search:
        search(page, task.search)
    assert page.url.partition("#")[0].partition("?")[0] == f"{server}/{task.page}.html"
    text = page.get_by_role("main").inner_text()
    assert re.search(task.answer, text, re.IGNORECASE | re.DOTALL)


def click(page, name: str) -> None:
    """Clicks the card with this title, or else the first link whose name starts so."""
    starts = re.compile(f"^{re.escape(name)}", re.IGNORECASE)
    card = page.locator(".sd-card-title", has_text=name)
    own = page.get_by_role("main").get_by_role("link", name=starts)
    anywhere = page.get_by_role("link", name=starts)
    link = next((links for links in (card, own) if links.count()), anywhere)
    with page.expect_navigation():
        # A card is a link as a whole, by an area that lies above its title.
        link.first.click(force=bool(card.count()))


def search(page, words: str) -> None:
    """Searches, waits for the excerpt of the first result, and clicks the result."""
    page.get_by_role("textbox", name="Search").fill(words)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    first = page.locator("ul.search li").first
    page.get_by_text("Search finished").wait_for()
    first.locator("p.excerpt").wait_for()
    with page.expect_navigation():
        first.get_by_role("link").click()


@pytest.mark.parametrize("words", SEARCHES)
def test_search_finds_names_of_errors_and_of_jax(words, site, visit) -> None:
    page = visit(f"{site}/index.html")
    search(page, words)
    assert page.url.partition("#")[0].partition("?")[0] == f"{site}/{SEARCHES[words]}.html"


def test_search_finds_the_guide_with_the_word_in_its_headings_first(site, visit) -> None:
    found = {}
    page = visit(f"{site}/index.html")
    for word in WORDS:
        page.goto(f"{site}/search.html?q={word}")
        page.get_by_text("Search finished").wait_for()
        first = page.locator("ul.search li a").first.get_attribute("href")
        found[word] = first.partition("?")[0].partition("#")[0].removesuffix(".html")
    assert found == WORDS


def test_excerpt_shows_the_word(site, visit) -> None:
    page = visit(f"{site}/search.html?q=flax")
    first = page.locator("ul.search li").first
    assert "flax" in first.locator("p.excerpt mark").first.inner_text().lower()
