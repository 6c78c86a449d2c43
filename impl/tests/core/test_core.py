"""The room ``impl/_core`` has what several rooms share, and depends on none of them."""

import ast
from pathlib import Path

import pytest

import impl

ROOT = Path(impl.__file__).parent
CORE = ROOT / "_core"
MODULES = sorted(p.stem for p in CORE.glob("*.py") if p.stem != "__init__")


def imported(path):
    """Yields the dotted names that a file of ``impl`` imports from ``impl``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("impl"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.fixture(scope="module")
def users():
    """For each module of ``_core``: the rooms that import it, and the files of ``_core``."""
    users = {module: set() for module in MODULES}
    for path in ROOT.rglob("*.py"):
        file = path.relative_to(ROOT)
        if file.parts[0] == "tests":
            continue
        user = str(file) if file.parts[0] == "_core" else file.parts[0]
        for name in imported(path):
            module = name.removeprefix("impl._core.").partition(".")[0]
            if name.startswith("impl._core.") and module in users:
                users[module].add(user)
    return users


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_room_serves_several(module, users):
    # One user is enough if it is a module of ``_core``, as ``arguments`` is for ``few_integers``.
    assert len(users[module]) > 1 or any(user.startswith("_core") for user in users[module])


def test_the_room_imports_no_other():
    for path in CORE.rglob("*.py"):
        assert {name.split(".")[1] for name in imported(path)} <= {"_core", "_version"}, path
