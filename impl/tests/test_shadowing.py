"""A user's own file or folder that has the name of a package of this distribution."""

import os

import pytest

from impl.tests.support import processes
from impl.tests.support.processes import ROOT

#: The paths of an editable installation. In a wheel, samebits is next to impl, without the folder
#: impl/_alias.
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "impl" / "_alias")))
#: It must not run: only the import system may look at the file.
FOREIGN = "raise SystemExit('the module of the user ran')\n"


def run(folder, *arguments):
    """Runs Python in ``folder``, with this distribution behind that folder on the path."""
    return processes.run(*arguments, folder=folder, PYTHONPATH=PATHS)


def written(folder, name, text=FOREIGN):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def assert_explained(done, package, file):
    assert done.returncode == 1, done.stdout + done.stderr
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith(f"ImportError: samebits needs its own package '{package}', but")
    assert str(file) in error
    assert "Rename" in error
    assert "python -P" in error


@pytest.mark.parametrize(
    ("imported", "package", "name"),
    [
        ("impl", "spec", "spec.py"),
        ("impl", "spec", "spec/__init__.py"),
        ("conformance", "spec", "spec.py"),
        ("conformance", "spec", "spec/__init__.py"),
        ("conformance", "impl", "impl.py"),
        ("conformance", "impl", "impl/__init__.py"),
        ("samebits", "spec", "spec.py"),
        ("samebits", "impl", "impl.py"),
    ],
)
def test_a_file_in_the_way_is_named(tmp_path, imported, package, name):
    file = written(tmp_path, name)
    script = written(tmp_path, "script.py", f"import {imported}\n")
    assert_explained(run(tmp_path, str(script)), package, file)
    assert_explained(run(tmp_path, "-c", f"import {imported}"), package, file)


@pytest.mark.parametrize("imported", ["impl", "conformance"])
def test_a_module_in_the_way_that_was_imported_before_is_named(tmp_path, imported):
    file = written(tmp_path, "spec.py", "rows = []\n")
    assert_explained(run(tmp_path, "-c", f"import spec, {imported}"), "spec", file)


def test_a_module_without_a_file_is_an_error_too(tmp_path):
    program = "import sys, types; sys.modules['spec'] = types.ModuleType('spec'); import impl"
    assert_explained(run(tmp_path, "-c", program), "spec", "a module without a file")


@pytest.mark.parametrize("imported", ["impl", "conformance"])
def test_the_way_out_works(tmp_path, imported):
    written(tmp_path, "spec.py")
    program = f"import spec, {imported}; print(spec.__file__)"
    script = written(tmp_path, "script.py", program)
    done = run(tmp_path, "-P", str(script))
    assert done.stdout.strip() == str(ROOT / "spec" / "__init__.py"), done.stderr


@pytest.mark.parametrize("name", ["spec/notes.txt", "conformance.py"])
def test_what_shadows_nothing_is_no_error(tmp_path, name):
    # Python prefers a package anywhere on the path to a folder without __init__.py.
    written(tmp_path, name)
    done = run(tmp_path, "-c", "import impl; print(impl.are_deterministic_algorithms_enabled())")
    assert done.stdout.strip() == "False", done.stderr
