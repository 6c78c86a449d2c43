"""The packages of ``impl`` import in one direction, and some modules have few users.

Tests: impl._kernels.triton.
"""

import functools
from pathlib import Path

import pytest

import impl
from impl.tests.support import rooms

ROOT = Path(impl.__file__).parent
CORE = sorted(path.stem for path in (ROOT / "_core").glob("*.py") if path.stem != "__init__")
#: ``_alias`` is a copy of the names of the library.
ABOVE = {"tests", "_alias"}


@functools.cache
def imported():
    """Returns the names that each file imports, with dots, by the path in ``impl``."""
    files = {path.relative_to(ROOT): path for path in ROOT.rglob("*.py")}
    return {file: {name for name, _ in rooms.modules(path)} for file, path in files.items()}


def users(module):
    """Returns the files that import a module or a name of it; tests about it may."""
    return {
        file
        for file, names in imported().items()
        if file.parts[0] != "tests" and any(f"{name}.".startswith(f"{module}.") for name in names)
    }


def test_the_packages_import_in_one_direction():
    imports = rooms.imports_between(ROOT, ABOVE)
    assert "_core" in imports["_exact"]
    assert rooms.circle(imports) == []


def test_no_package_imports_the_whole_library():
    inside = {f: n for f, n in imported().items() if len(f.parts) > 1 and f.parts[0] not in ABOVE}
    assert [file for file, names in inside.items() if "impl" in names] == []


@pytest.mark.parametrize("module", CORE)
def test_a_module_of_the_core_serves_several_packages(module):
    # One user is enough if it is a module of ``_core``, as ``arguments`` is for ``few_integers``.
    packages = {file.parts[0] for file in users(f"impl._core.{module}")}
    assert len(packages) > 1 or "_core" in packages


def test_the_core_imports_private_parts_of_jax_alone_which_import_no_room():
    allowed = {"_core": {"_core", "_jax", "_version"}, "_jax": {"_jax"}}
    for file, names in imported().items():
        if file.parts[0] in allowed:
            of_impl = {name.split(".")[1] for name in names if name.startswith("impl.")}
            assert of_impl <= allowed[file.parts[0]], file


def test_one_module_imports_triton_and_one_calls_it():
    assert users("jax.experimental.pallas.triton") == {Path("_kernels/pallas.py")}
    assert users("impl._kernels.triton") == {Path("_kernels/launch.py")}


def test_a_circle_is_found_with_the_lines_that_make_it(tmp_path):
    root = tmp_path / "house"
    for package, text in {
        "cellar": "def f():\n    from house import roof\n",
        "hall": "from house.cellar import f\n",
        "roof": "import house.hall\n",
        "garden": "import house.roof\n",
    }.items():
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text(text)
    assert sorted(rooms.circle(rooms.imports_between(root, set()))) == [
        "house/cellar/__init__.py:2 imports house.roof",
        "house/hall/__init__.py:1 imports house.cellar.f",
        "house/roof/__init__.py:1 imports house.hall",
    ]
    assert rooms.circle(rooms.imports_between(root, {"hall"})) == []
