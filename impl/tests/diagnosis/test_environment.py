"""Flags of XLA: how they are parsed, and whether the installed jaxlib knows those of the table."""

import pytest

from impl.diagnosis import _environment, _settings

#: Flags of jaxlib 0.10 that jaxlib 0.12 does not have.
GONE = {"xla_gpu_experimental_autotuner_cache_dir"}


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
    assert _environment.flags(text) == expected


def test_flags_may_be_in_a_file(tmp_path):
    (tmp_path / "flags").write_text("--a=1\n--b\n")
    assert _environment.flags(str(tmp_path / "flags")) == {"a": "1", "b": "true"}


def test_jaxlib_knows_every_flag_of_the_table(monkeypatch):
    value = {
        "xla_force_host_platform_device_count": "2",
        "xla_gpu_experimental_autotune_cache_mode": "AUTOTUNE_CACHE_MODE_READ",
    }
    flags = [
        f"--{setting.name}={value.get(setting.name, '0')}"
        for setting in _settings.table().settings
        if setting.kind == "flag" and "*" not in setting.name and setting.name not in GONE
    ]
    assert len(flags) > 10
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))
    assert _environment.refusal() is None
