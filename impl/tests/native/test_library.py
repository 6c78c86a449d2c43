"""A library that does not fit this process counts as missing; its build, and its floats in C++.

An editable installation has folders for Python's path, and runs nothing when Python starts.

Tests: impl._native.build_backend.samebits_backend.
"""

import csv
import ctypes.util
import io
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import impl
from impl import testing
from impl._native import library
from impl.diagnosis import _program

OFF = os.environ.get(library.VARIABLE) in ("off", "0")
#: The tests that need it are skipped where it was not built; CI builds it.
needs_library = pytest.mark.skipif(not library.is_available(), reason=str(library.problem()))


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv(library.VARIABLE, raising=False)


@pytest.fixture
def missing(monkeypatch):
    monkeypatch.setattr(library, "problem", lambda: "nothing was built")
    monkeypatch.setattr(library, "_warned", set())


@pytest.mark.skipif("CI" not in os.environ or OFF, reason="a compiler may be missing")
def test_the_library_is_built():
    assert library.problem() is None


@needs_library
def test_the_engine_is_there():
    assert "native" in testing.engines()
    with testing.engine("native"):
        pass


@pytest.mark.parametrize("value", ["off", "0"])
def test_the_variable_turns_it_off(monkeypatch, value):
    monkeypatch.setenv(library.VARIABLE, value)
    with pytest.raises(library._UnfitError, match="SAMEBITS_NATIVE turns it off"):
        library._loaded()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("path", lambda: None, "was not built"),
        ("path", lambda: Path(__file__), "cannot be loaded"),  # It is of no processor.
        ("path", lambda: ctypes.util.find_library("m"), "does not say what it was built from"),
        pytest.param("_sources", lambda: "0" * 64, "from other sources", marks=needs_library),
        pytest.param("_api_version", lambda: (0, 0), "this jaxlib has 0.0", marks=needs_library),
        pytest.param("_api_version", lambda: (1, 9), "this jaxlib has 1.9", marks=needs_library),
        pytest.param(
            "CALLS",
            (*library.CALLS, "samebits_unknown"),
            "has no function samebits_unknown",
            marks=needs_library,
        ),
    ],
)
def test_a_library_that_does_not_fit(monkeypatch, name, value, message):
    monkeypatch.setattr(library, name, value)
    with pytest.raises(library._UnfitError, match=message):
        library._loaded()


@needs_library
@pytest.mark.parametrize("version", [(0, 99), None])
def test_a_newer_xla_has_it_too(monkeypatch, version):
    monkeypatch.setattr(library, "_api_version", lambda: version)
    library._loaded()


@pytest.mark.usefixtures("missing")
def test_one_warning_says_that_it_is_missing():
    with pytest.warns(RuntimeWarning, match=r"'native', because nothing was built\..* C\+\+"):
        library.warn_if_missing()
    with warnings.catch_warnings(action="error"):
        library.warn_if_missing()


@pytest.mark.usefixtures("missing")
def test_nothing_warns_where_the_variable_turns_it_off(monkeypatch):
    monkeypatch.setenv(library.VARIABLE, "off")
    library.warn_if_missing()


@pytest.mark.usefixtures("missing")
def test_a_scope_of_the_engine_is_refused():
    assert testing.engines() == ("float64", "int8", "integers")
    with pytest.raises(RuntimeError, match=r"engine\(\): .* 'native' is missing: nothing was"):
        impl.testing.engine("native")


@pytest.mark.usefixtures("missing")
def test_a_program_of_a_cpu_warns_and_has_the_same_bits():
    x = jnp.array([1e8, 1, -1e8], jnp.float32)
    with impl.deterministic(guarantee="portable"):
        with pytest.warns(RuntimeWarning, match="without the engine 'native'"):
            total = jax.jit(lambda x: x.sum() * 3)(x)
        other = jax.jit(lambda x: x.sum() * 5)(x)
    assert (total, other) == (3, 5)


@pytest.mark.usefixtures("missing")
def test_the_audit_warns_of_nothing():
    with impl.deterministic(guarantee="portable"):
        assert impl.audit(jnp.sum, device="cpu")(jnp.ones(3)).engine == "float64"


@pytest.mark.usefixtures("missing")
def test_the_doctor_says_why():
    (item,) = _program.engine("cpu")
    assert item.reason.endswith(
        "The engine native, which is faster, is missing: nothing was built."
    )
    (item,) = _program.engine("tpu")
    assert "missing" not in item.reason


FOLDER = Path(impl.__file__).parent / "_native"
COMPILER = shutil.which("c++")


@pytest.mark.once
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.skipif(not (FOLDER / "tests").is_dir(), reason="needs a checkout")
def test_results_equal_those_of_integers(tmp_path):
    program = tmp_path / "test_numbers"
    options = ["-std=gnu++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    folders = ["-I", str(FOLDER / "src"), "-isystem", jax.ffi.include_dir(), "-pthread"]
    source = FOLDER / "tests" / "test_numbers.cc"
    command = [COMPILER, *options, *folders, str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


BUILD = FOLDER / "build_backend"


@pytest.fixture
def backend(monkeypatch):
    pytest.importorskip("scikit_build_core")
    if not BUILD.is_dir():
        pytest.skip("needs a checkout")
    monkeypatch.syspath_prepend(str(BUILD))
    monkeypatch.delitem(sys.modules, "samebits_backend", raising=False)
    return pytest.importorskip("samebits_backend")


@pytest.mark.once
def test_an_editable_wheel_has_no_import_hook(backend, monkeypatch, tmp_path):
    monkeypatch.chdir(BUILD.parents[2])
    monkeypatch.setenv("SAMEBITS_NATIVE", "off")
    name = backend.build_editable(str(tmp_path))
    assert name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(tmp_path / name) as wheel:
        files = {path: wheel.read(path).decode() for path in wheel.namelist()}
    at_the_top = [path for path in files if "/" not in path]
    assert [Path(path).suffix for path in at_the_top] == [".pth"]
    root = BUILD.parents[2]
    assert files[at_the_top[0]].splitlines() == [str(root), str(root / "impl/_alias")]
    (record,) = (path for path in files if path.endswith("RECORD"))
    assert sorted(line[0] for line in csv.reader(io.StringIO(files[record]))) == sorted(files)


@pytest.mark.once
def test_only_what_runs_at_the_start_is_left_out(backend):
    record = "a.dist-info/RECORD"
    files = {
        "_hook.py": b"install()",
        "_hook.pth": b"import _hook\n/one\n/one\n/two\n",
        "_hook.start": b"_hook:install",
        "a.dist-info/METADATA": b"Name: a",
        record: b"_hook.py,sha256=1,9\n",
    }
    rest = backend.without_hook(files)
    assert list(rest) == ["_hook.pth", "a.dist-info/METADATA", record]
    assert rest["_hook.pth"] == b"/one\n/two\n"
    # By `sha256sum`, in the base64 of URLs.
    assert rest[record].decode().splitlines() == [
        "_hook.pth,sha256=YPd6bK3PlrfchtFDgiqoMhrGbxY-2mn7kogowpXw6wo,10",
        "a.dist-info/METADATA,sha256=fL5Xc15sud_--6G9LmnONYiqLvJ9HLh3fHVlPnQBHIg,7",
        "a.dist-info/RECORD,,",
    ]
