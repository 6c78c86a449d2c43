"""The roles by which other sites link to rows, with the text of the page about data."""

import re
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

import spec

DOCS = Path(__file__).parents[1]
HTML = DOCS / "_build" / "html"


@pytest.mark.parametrize("kind", ["row", "profile", "order"])
def test_another_site_links_to_an_entry(kind: str, tmp_path: Path) -> None:
    page = (DOCS / "data.md").read_text(encoding="utf-8")
    text = re.findall(r"^```python\n(extensions.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    configuration = text.replace(", None)", f', r"{HTML / "objects.inv"}")')
    name = {"row": "R0001", "profile": spec.default_profile(), "order": "source"}[kind]
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text(configuration, encoding="utf-8")
    (source / "index.rst").write_text(f"Site\n====\n\n:{kind}:`{name}`\n", encoding="utf-8")
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(source),
            str(source),
            str(tmp_path / "html"),
            str(tmp_path / "doctrees"),
            "html",
            confoverrides={"nitpicky": True},
            status=None,
            warning=None,
            warningiserror=True,
            exception_on_warning=True,
        )
        app.build()
    built = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="https://samebits\.example/([^"]+)"', built)
    assert len(links) == 1
    assert (HTML / links[0].partition("#")[0]).is_file()
