"""Each module of more than 200 lines shows an example of its input and output."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The lines from which on a reader needs an example.
LONG = 200
#: Files of which each function is an example, or a test.
OTHERS = re.compile(r"/tests/|^conformance/cases/")
#: An indented block, a table, or a doctest.
EXAMPLE = re.compile(r"^ {4,}\S|^ *=== *=|^ *={3,}\s+={3,}|^ *>>> ", re.MULTILINE)


def long_modules() -> list[str]:
    """Returns the modules that have more than 200 lines, except tests and tables of samples."""
    command = ["git", "ls-files", "impl", "spec", "conformance", "docs/_ext"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [f for f in listed.stdout.split() if f.endswith(".py") and not OTHERS.search(f)]
    return [f for f in files if (ROOT / f).read_text(encoding="utf-8").count("\n") > LONG]


def examples(source: str) -> list[str]:
    """Returns the docstrings with an example: the module's, or a public one with ``Examples:``."""
    tree = ast.parse(source)
    own = ast.get_docstring(tree) or ""
    public = [
        ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    return [own] * bool(EXAMPLE.search(own)) + [each for each in public if "Examples:" in each]


@pytest.mark.parametrize("module", long_modules())
def test_long_module_shows_an_example(module: str) -> None:
    assert examples((ROOT / module).read_text(encoding="utf-8")), (
        f"{module} has more than {LONG} lines: open it with an example of its input and output, "
        "as an indented block or a table, or give a public function `Examples:`"
    )


def test_an_indented_block_a_table_and_a_doctest_are_examples() -> None:
    assert examples('"""Adds.\n\nFor example::\n\n    1 + 2\n"""')
    assert examples('"""Adds.\n\n===  ===\n1+2  3\n===  ===\n"""')
    assert examples(
        '"""Adds."""\ndef add():\n    """Adds.\n\n    Examples:\n        >>> 1\n    """'
    )
    assert not examples('"""Adds two numbers."""\ndef _add():\n    """Examples: none."""')
