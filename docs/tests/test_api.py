"""The built page of the library against the API; `nox -s docs` builds it first."""

import re
from pathlib import Path

import pytest

import impl

PAGE = Path(__file__).parents[1] / "_build" / "html" / "api" / "index.html"


def documented() -> set[str]:
    """The dotted names of the modules, functions, classes and attributes on the page."""
    page = PAGE.read_text(encoding="utf-8")
    return set(re.findall(r'id="(?:module-)?(impl[\w.]*)"', page))


@pytest.mark.parametrize("name", dir(impl))
def test_the_page_documents_every_public_name(name: str) -> None:
    # A constant is documented by the module that defines it, and a package by its modules.
    names = {f"{module}.{name}" for module in ("impl", "impl.random", "impl.quantized")}
    assert names & documented() or any(n.startswith(f"impl.{name}.") for n in documented())


@pytest.mark.parametrize("name", impl.testing.__all__)
def test_the_page_documents_every_tool_for_tests(name: str) -> None:
    assert f"impl.testing.{name}" in documented()


def test_the_page_documents_nothing_that_is_private() -> None:
    assert [name for name in documented() if "._" in name] == []
