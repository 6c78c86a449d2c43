"""The imports between the packages of a tree, as its sources state them."""

import ast
import graphlib
import itertools
from collections.abc import Iterator
from pathlib import Path

#: How the names of pytest's files start.
_OF_TESTS = ("test_", "conftest")


def imports_between(root: Path, leave_out: set[str]) -> dict[str, dict[str, str]]:
    """Returns, for each package directly under a root, the packages that it imports, by a line.

    Imports inside functions count too. Modules directly under the root do not: they are the names
    that users import, and lie above every package. Files of tests lie above every package too.
    """
    packages = {path.parent.name for path in root.glob("*/__init__.py")} - leave_out
    found: dict[str, dict[str, str]] = {package: {} for package in sorted(packages)}
    for package in sorted(packages):
        for path in sorted((root / package).rglob("*.py")):
            if path.name.startswith(_OF_TESTS):
                continue
            for module, line in modules(path):
                first, _, rest = module.partition(".")
                room = rest.partition(".")[0]
                if first == root.name and room in packages - {package}:
                    where = f"{path.relative_to(root.parent)}:{line} imports {module}"
                    found[package].setdefault(room, where)
    return found


def modules(path: Path) -> Iterator[tuple[str, int]]:
    """Yields the modules that a file imports, with the lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # ``from impl import _exact`` imports a package too.
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def circle(imports: dict[str, dict[str, str]]) -> list[str]:
    """Returns the lines of imports that make a circle of packages; none if there is no circle."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        packages = error.args[1][::-1]
        pairs = itertools.pairwise(packages)
        return [imports[package][imported] for package, imported in pairs]
    return []
