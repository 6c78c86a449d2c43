"""The pages, the README and CONTRIBUTING against the files and sessions that they name."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
#: Folders that a build makes.
GENERATED = ("docs/_build/", "docs/_data/", "docs/ops/", "docs/primitives/", "docs/profiles/")


def paths(page: Path) -> list[str]:
    """Returns the paths that a page names. Capital letters mark a blank: ``impl/ops/OP.py``."""
    names = re.findall(r"`((?:spec|impl|conformance|docs)/[^`\s]*)`", page.read_text("utf-8"))
    return [n for n in names if not re.search("[A-Z]", n) and not n.startswith(GENERATED)]


def sessions() -> set[str]:
    """Returns the names of the sessions of nox."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("nox.session" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_path_exists(page: Path) -> None:
    assert [path for path in paths(page) if not any(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_session_exists(page: Path) -> None:
    named = set(re.findall(r"nox -s (\w+)", page.read_text(encoding="utf-8")))
    assert named <= sessions()


def test_contributing_explains_each_session() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `nox -s (\w+)` \|", text, re.MULTILINE)) == sessions()
