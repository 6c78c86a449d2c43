"""The options that the mode requires, for every program of a process.

``impl.use_deterministic_algorithms(True)`` sets them, and so does ``impl.set_xla_flags``.
"""

import os
import warnings

import pytest

import impl
from impl import _jax
from impl._mode import compilation


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")


@pytest.fixture
def not_started(monkeypatch):
    monkeypatch.setattr(_jax, "backend_has_started", lambda: False)


@pytest.mark.usefixtures("not_started")
def test_flags_are_added_to_those_of_the_environment(monkeypatch):
    with impl.deterministic():
        required = impl.xla_flags()
        impl.set_xla_flags()
        impl.set_xla_flags()  # Nothing is missing, so nothing is added.
        assert "--xla_gpu_exclude_nondeterministic_ops=true" in required.split()
        assert os.environ["XLA_FLAGS"] == f"--xla_cpu_max_isa=AVX2 {required}"
        # The values of bools have two spellings.
        same = required.replace("=true", "=1").replace("=false", "=0")
        monkeypatch.setenv("XLA_FLAGS", same)
        impl.set_xla_flags()
    assert os.environ["XLA_FLAGS"] == same


def test_it_is_too_late_after_the_backend_has_started():
    _jax.jax.devices()
    with impl.deterministic(), pytest.raises(RuntimeError, match="before anything is computed"):
        impl.set_xla_flags()


TURN_ON = {
    "the mode": lambda: impl.use_deterministic_algorithms(True),
    "warn_only": lambda: impl.use_deterministic_algorithms(True, warn_only=True),
    "level 1": lambda: impl.set_deterministic_debug_mode(1),
    "level error": lambda: impl.set_deterministic_debug_mode("error"),
}


@pytest.mark.usefixtures("not_started")
@pytest.mark.parametrize("line", TURN_ON)
def test_turning_the_mode_on_adds_the_flags_and_turning_it_off_keeps_them(line):
    with impl.deterministic():
        required = impl.xla_flags()
    with impl.deterministic(profile="complete"):  # The mode of the process counts.
        impl.use_deterministic_algorithms(False)
        assert os.environ["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX2"
        TURN_ON[line]()
    assert os.environ["XLA_FLAGS"] == f"--xla_cpu_max_isa=AVX2 {required}"
    impl.use_deterministic_algorithms(False)
    assert os.environ["XLA_FLAGS"] == f"--xla_cpu_max_isa=AVX2 {required}"


@pytest.fixture
def platforms(monkeypatch):
    """Sets the names of the platforms that JAX has started, or may start."""
    compilation._warned.clear()

    def use(*names, started=True):
        monkeypatch.setattr(_jax, "backend_has_started", lambda: started)
        used = frozenset(names) or None
        monkeypatch.setattr(_jax, "platforms_in_use", lambda: used)

    return use


def messages(turn_on):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        turn_on()
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize("line", TURN_ON)
def test_it_warns_once_where_a_gpu_has_started(platforms, platform, line):
    platforms("cpu", platform)
    (message,) = messages(TURN_ON[line])
    assert 'XLA_FLAGS="$(python -m impl flags)"' in message
    assert "before anything is computed" in message
    assert impl.are_deterministic_algorithms_enabled()
    assert messages(TURN_ON[line]) == []
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX2"


def test_it_does_not_warn_where_the_flags_have_no_effect_or_are_set(platforms, monkeypatch):
    for flags in ("", "--xla_gpu_autotune_level=4"):
        monkeypatch.setenv("XLA_FLAGS", flags)
        for platform in ("cpu", "tpu"):
            platforms(platform)
            assert messages(TURN_ON["the mode"]) == []
    platforms("cuda")
    with impl.deterministic():
        monkeypatch.setenv("XLA_FLAGS", impl.xla_flags())
    assert messages(TURN_ON["the mode"]) == []


def test_another_value_of_a_user_stays_with_a_warning(platforms, monkeypatch):
    platforms(started=False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    (message,) = messages(TURN_ON["the mode"])
    assert "xla_gpu_autotune_level to '4', but the row R" in message
    assert compilation.parsed(os.environ["XLA_FLAGS"])["xla_gpu_autotune_level"] == "4"
    assert "--xla_gpu_exclude_nondeterministic_ops=true" in os.environ["XLA_FLAGS"].split()
    assert messages(TURN_ON["the mode"]) == []


def test_a_file_of_flags_is_not_written(platforms, monkeypatch, tmp_path):
    platforms(started=False)
    (tmp_path / "flags").write_text("--xla_gpu_autotune_level=0")
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "flags"))
    (message,) = messages(TURN_ON["the mode"])
    assert "add --xla_gpu_exclude_nondeterministic_ops=true" in message
    with impl.deterministic():
        (tmp_path / "flags").write_text(impl.xla_flags())
        impl.set_xla_flags()


@pytest.mark.parametrize(("chosen", "platforms"), [(None, None), ("cuda,cpu", {"cuda", "cpu"})])
def test_the_platforms_in_use_are_those_that_jax_may_start(chosen, platforms, monkeypatch):
    assert _jax.platforms_in_use() == set(_jax.jax.local_devices()[0].platform.split())
    monkeypatch.setattr(_jax, "backend_has_started", lambda: False)
    monkeypatch.setattr(_jax, "platforms", lambda: chosen)
    assert _jax.platforms_in_use() == platforms


@pytest.mark.usefixtures("not_started")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--xla_gpu_autotune_level=4", "xla_gpu_autotune_level to '4', but the row R"),
        ("flags.txt", "names the file 'flags.txt'"),
    ],
)
def test_other_values_are_refused(text, message, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", text)
    with impl.deterministic(), pytest.raises(ValueError, match=message):
        impl.set_xla_flags()


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
def test_flags_are_parsed_as_xla_parses_them(text, expected, tmp_path):
    assert compilation.parsed(text) == expected
    if text.startswith("--"):
        (tmp_path / "flags").write_text(text)
        assert compilation.parsed(str(tmp_path / "flags")) == expected
