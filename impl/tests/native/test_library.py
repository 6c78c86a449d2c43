"""A library that does not fit this process counts as missing; and the floats of its C++."""

import ctypes.util
import os
import shutil
import subprocess
import warnings
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


def test_it_was_not_built(monkeypatch):
    monkeypatch.setattr(library, "path", lambda: None)
    with pytest.raises(library._UnfitError, match="was not built"):
        library._loaded()


def test_it_is_for_another_processor(monkeypatch, tmp_path):
    file = tmp_path / "libsamebits_cpu.so"
    file.write_bytes(b"\x7fELF of another processor")
    monkeypatch.setattr(library, "path", lambda: file)
    with pytest.raises(library._UnfitError, match="cannot be loaded"):
        library._loaded()


def test_it_is_another_library(monkeypatch):
    monkeypatch.setattr(library, "path", lambda: ctypes.util.find_library("m"))
    with pytest.raises(library._UnfitError, match="does not say what it was built from"):
        library._loaded()


@needs_library
def test_its_sources_have_changed(monkeypatch):
    monkeypatch.setattr(library, "_sources", lambda: "0" * 64)
    with pytest.raises(library._UnfitError, match="from other sources"):
        library._loaded()


@needs_library
@pytest.mark.parametrize("version", [(0, 0), (1, 9)])
def test_this_xla_is_older_or_has_another_interface(monkeypatch, version):
    monkeypatch.setattr(library, "_api_version", lambda: version)
    with pytest.raises(library._UnfitError, match=f"this jaxlib has {version[0]}.{version[1]}"):
        library._loaded()


@needs_library
@pytest.mark.parametrize("version", [(0, 99), None])
def test_a_newer_xla_has_it_too(monkeypatch, version):
    monkeypatch.setattr(library, "_api_version", lambda: version)
    library._loaded()


@needs_library
def test_it_lacks_a_call(monkeypatch):
    monkeypatch.setattr(library, "CALLS", (*library.CALLS, "samebits_unknown"))
    with pytest.raises(library._UnfitError, match="has no function samebits_unknown"):
        library._loaded()


def test_the_version_of_the_interface_is_read():
    assert library._api_version() >= (0, 1)


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
