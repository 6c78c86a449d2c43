"""The Triton backend: no other module of impl knows it."""

import ast
import pathlib

import impl
from impl._kernels import triton

BACKEND = "jax.experimental.pallas.triton"


def imports(path):
    """The modules and names that a file imports, with dots."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(prefix):
    folder = pathlib.Path(impl.__file__).parent
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(name == prefix or name.startswith(f"{prefix}.") for name in imports(path))
    }


def test_one_module_imports_triton():
    # Tests about the kernels of other people write some.
    found = {file for file in importers(BACKEND) if not file.startswith("tests/")}
    assert found == {"_kernels/pallas.py"}


def test_one_module_calls_the_backend():
    assert importers("impl._kernels.triton") == {
        "_kernels/launch.py",
        "tests/kernels/test_triton.py",
    }


def test_one_module_writes_ptx():
    folder = pathlib.Path(triton.__file__).parent
    writers = [path.name for path in folder.glob("*.py") if "inline_asm(" in path.read_text()]
    assert writers == ["triton.py"]
