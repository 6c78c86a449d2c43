"""``impl.set_xla_flags``: the options that the mode requires, for every program of a process."""

import os
import subprocess
import sys

import pytest

import impl
from impl._core import jax_internals
from impl._mode import flags

LATE = """
import jax, impl
impl.use_deterministic_algorithms(True)
impl.set_xla_flags()
import os
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=3"
print(jax.jit(lambda x: x @ x)(jax.numpy.ones((2, 2)))[0, 0], jax.device_count())
print(impl.audit(jax.jit(lambda x: x @ x))(jax.numpy.ones((2, 2))).ok)
impl.set_xla_flags()
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")


@pytest.fixture
def not_started(monkeypatch):
    monkeypatch.setattr(jax_internals, "backend_has_started", lambda: False)


def test_a_process_whose_backend_has_not_started_compiles_everything_with_the_flags():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0", "3", "True"]


@pytest.mark.usefixtures("not_started")
def test_flags_are_added_to_those_of_the_environment():
    with impl.deterministic():
        required = impl.xla_flags()
        impl.set_xla_flags()
        impl.set_xla_flags()  # Nothing is missing, so nothing is added.
    assert "--xla_gpu_exclude_nondeterministic_ops=true" in required.split()
    assert os.environ["XLA_FLAGS"] == f"--xla_cpu_max_isa=AVX2 {required}"


def test_it_is_too_late_after_the_backend_has_started():
    jax_internals.jax.devices()
    with impl.deterministic(), pytest.raises(RuntimeError, match="before anything is computed"):
        impl.set_xla_flags()


@pytest.mark.usefixtures("not_started")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--xla_gpu_autotune_level=4", "xla_gpu_autotune_level to '4', and the row R"),
        ("flags.txt", "names the file 'flags.txt'"),
    ],
)
def test_other_values_are_refused(text, message, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", text)
    with impl.deterministic(), pytest.raises(ValueError, match=message):
        impl.set_xla_flags()


@pytest.mark.usefixtures("not_started")
def test_the_values_of_bools_have_two_spellings(monkeypatch):
    with impl.deterministic():
        required = impl.xla_flags()
        same = required.replace("=true", "=1").replace("=false", "=0")
        monkeypatch.setenv("XLA_FLAGS", same)
        impl.set_xla_flags()
    assert os.environ["XLA_FLAGS"] == same


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("--a=1 --b", {"a": "1", "b": "true"}),
        ("  --a=1\n--a=2 ", {"a": "2"}),
        ("--a='x y' --b=\"z\"", {"a": "x y", "b": "z"}),
        ("--a='x", {"a": "'x"}),
        ("/no/such/file", {}),
    ],
)
def test_flags_are_parsed_as_xla_parses_them(text, expected):
    assert flags.parsed(text) == expected


def test_flags_may_be_in_a_file(tmp_path):
    (tmp_path / "flags").write_text("--a=1\n--b\n")
    assert flags.parsed(str(tmp_path / "flags")) == {"a": "1", "b": "true"}
