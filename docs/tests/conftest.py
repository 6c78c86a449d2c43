"""Reads the built site, for its tests; ``nox -s docs`` builds the site first."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

# It sets the variable that Equinox reads when a page imports Equinox.
from conformance import programs as programs
from conformance.suite.conftest import pytest_collection_finish as pytest_collection_finish
from impl.tests._state import restored_state as restored_state

HTML = Path(__file__).parents[1] / "_build" / "html"


@pytest.fixture(scope="session")
def page_html() -> Callable[[str], str]:
    """Returns the HTML of a page of the built site, by its name."""
    return lambda page: (HTML / f"{page}.html").read_text(encoding="utf-8")


def plain(text: str) -> str:
    """Returns the text of HTML, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def unmarked(text: str) -> str:
    """Returns the text of Markdown without roles, and without marks of code and of a bold start."""
    return " ".join(re.sub(r"\{\w+\}(?=`)|`|^\*\*|\*\*(?=\.)", "", text).split())


def section(page: str, heading: str) -> str:
    """Returns the HTML of a section, from its heading to the next of its level."""
    found = re.search(rf"<h2>{re.escape(heading)}.*?(?=<h2>|</article>)", page, re.DOTALL)
    assert found, heading
    return found[0]


def tables(text: str) -> list[list[str]]:
    """Returns the texts of the cells of each line of the tables in HTML."""
    rows = re.findall(r"<tr.*?(?=<tr|</tbody>|</table>|$)", text, re.DOTALL)
    cells = (re.findall(r"<t[dh].*?(?=<t[dh]|</tr>|$)", row, re.DOTALL) for row in rows)
    return [[plain(cell) for cell in row] for row in cells]
