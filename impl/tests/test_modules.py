"""Each module of impl that defines a function or a class has a test file.

The test of ``impl/_core/axes.py`` is ``impl/tests/core/test_axes.py``: ``test_`` and the name of
the module, in the folder of its room. A test file of other modules names them in the last
paragraph of its docstring:
``Tests: impl._exact.sums.reduction, impl._exact.sums.windows.`` The tests of all ops,
``conformance/tests/every_op/``, try a module that defines a public op.
"""

import ast
import functools
import re
from pathlib import Path

import pytest

from impl.tests.support.public_ops import public_ops

IMPL = Path(__file__).parents[1]
TESTS = sorted(IMPL.glob("tests/**/test_*.py"))
#: The tests read files alone.
pytestmark = pytest.mark.once


def defines_something(file: Path) -> bool:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body)


@functools.cache
def modules() -> dict[str, Path]:
    """Returns the file of each module of impl that defines a function or a class, by its name."""
    files = [file for file in IMPL.rglob("*.py") if "tests" not in file.relative_to(IMPL).parts]
    parts = {file: file.relative_to(IMPL.parent).with_suffix("").parts for file in files}
    return {
        ".".join(names).removesuffix(".__init__"): file
        for file, names in sorted(parts.items())
        if defines_something(file)
    }


@functools.cache
def named(test: Path) -> list[str]:
    """Returns the modules that the docstring of a test file names."""
    text = ast.get_docstring(ast.parse(test.read_text(encoding="utf-8"))) or ""
    last = re.search(r"(?:^|\n\n)Tests: ([\w.,\s]+)\.\Z", text)
    return re.split(r",\s+", last[1]) if last else []


def of_name(module: str) -> list[Path]:
    """Returns the test files that have the name of a module, in the folder of its room."""
    *rooms, name = module.split(".")[1:]
    room = rooms[0].strip("_") if rooms else ""
    if rooms[:2] == ["utils", "data"]:
        room = "data"
    if not rooms:  # A module or package at the top.
        return list((IMPL / "tests").glob(f"test_{name.strip('_')}.py"))
    return list((IMPL / "tests" / room).rglob(f"test_{name.strip('_')}.py"))


def test_each_module_has_a_test_file() -> None:
    names = {module for test in TESTS for module in named(test)}
    names |= {function.__module__ for function in public_ops().values()}
    assert [module for module in modules() if module not in names and not of_name(module)] == []


def test_test_files_name_modules_that_exist() -> None:
    unknown = [(test.name, name) for test in TESTS for name in named(test)]
    assert [each for each in unknown if each[1] not in modules()] == []
