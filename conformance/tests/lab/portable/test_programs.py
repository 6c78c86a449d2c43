"""A program that nobody rewrote learns the same bits on one device and on eight, on every JAX."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.lab.portable import programs, settings

FILE = Path(programs.__file__).with_suffix(".toml")
EIGHT = settings.Setting(8)
DIGESTS = tomllib.loads(FILE.read_text(encoding="utf-8"))


def test_every_program_has_a_digest():
    assert set(DIGESTS) == set(programs.PROGRAMS)


def test_a_program_on_eight_devices_has_the_digest_of_all():
    digests = settings.digests(EIGHT, ["recurrent"], plain=False)
    assert digests["recurrent"].startswith(DIGESTS["recurrent"])


def test_the_table_of_settings_fails_where_bits_differ(monkeypatch, capsys):
    def digests(setting, names, *, plain, **_):
        own = {name: setting.devices if plain or name == "conv_net" else 1 for name in names}
        return {"jax": "0.10.2", **{name: str(number) for name, number in own.items()}}

    monkeypatch.setattr(settings, "digests", digests)
    assert settings.main(["recurrent", "--devices", "1", "8"]) == 0
    table = capsys.readouterr().out
    assert table.endswith("| **different results** | 1 | 2 |\n")
    assert "8 devices, 1 thread | `1` | `8` |" in table
    assert settings.main(["recurrent", "conv_net", "--devices", "1", "2"]) == 1


def test_a_setting_that_fails_is_named(monkeypatch):
    failed = SimpleNamespace(returncode=1, stderr="no memory")
    monkeypatch.setattr(settings.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match=r"(?s)8 devices, 2 threads: .*no memory"):
        settings.digests(EIGHT, ["recurrent"], plain=True)
