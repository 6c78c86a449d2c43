"""The blocks of Python on the guides run, and print the text that the page shows after them."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import impl

DOCS = Path(__file__).parents[1]
GUIDES = [DOCS / "your-program.md"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, int, str]]:
    """Returns the language, the line and the text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        (match[1], text.count("\n", 0, match.start(2)), match[2]) for match in _BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_blocks_run_and_print_what_the_page_shows(page: Path) -> None:
    names: dict[str, object] = {}
    printed = ""
    outputs = 0
    try:
        for language, line, text in blocks(page):
            if language == "text":
                assert printed.split() == text.split(), f"{page.name}:{line + 1}"
                outputs += 1
            if language == "python":
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    # The lines of the page are those of the program, for errors and reports.
                    exec(compile("\n" * line + text, str(page), "exec"), names)
                printed = out.getvalue()
    finally:
        impl.use_deterministic_algorithms(False)
        impl.programs.enable()
    assert outputs
