"""The packages of ``impl`` import in one direction: none needs a package that needs it."""

from pathlib import Path

import impl
from impl.tests.support import rooms

ROOT = Path(impl.__file__).parent
#: ``_alias`` is a copy of the names of the library.
ABOVE = {"tests", "_alias"}


def test_the_packages_import_in_one_direction():
    imports = rooms.imports_between(ROOT, ABOVE)
    assert "_core" in imports["_exact"]
    assert rooms.circle(imports) == []


def test_no_package_imports_the_whole_library():
    named = [path for path in ROOT.rglob("*.py") if _imports_impl(path)]
    assert named == []


def _imports_impl(path):
    inside = path.relative_to(ROOT).parts
    if len(inside) == 1 or inside[0] in ABOVE:
        return False
    return "impl" in {module for module, _ in rooms.modules(path)}


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
