"""Inline code that names a file of the repository is a link to the file."""

import re
from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

PAGE = """# Page

`impl/ops/_reads.py`, [`impl/ops/_memory.py`](https://x.org/), `impl/ops/` and `impl/ops/absent.py`
"""


def test_the_name_of_a_file_is_a_link(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(PAGE, encoding="utf-8")
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(source),
            None,
            str(tmp_path / "html"),
            str(tmp_path / "doctrees"),
            "html",
            confoverrides={"extensions": ["myst_parser", "file_links"]},
            status=None,
            exception_on_warning=True,
        )
        app.build()
    text = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="_downloads/\w+/([^"]+)"', text) == ["_reads.py"]
    assert 'href="https://x.org/"' in text


def test_the_map_links_its_files(page_html: Callable[[str], str]) -> None:
    page = (Path(__file__).parents[1] / "architecture.md").read_text(encoding="utf-8")
    named = {path.rpartition("/")[2] for path in re.findall(r"`(impl/[\w./-]+\.\w+)`", page)}
    linked = set(re.findall(r'href="_downloads/\w+/([^"]+)"', page_html("architecture")))
    assert len(named) > 50
    assert named - linked == set()
