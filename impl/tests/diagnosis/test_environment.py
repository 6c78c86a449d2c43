"""Flags of XLA: whether the installed jaxlib knows the flags of the table."""

from impl.diagnosis import _environment, _settings

#: Flags of jaxlib 0.10 that jaxlib 0.12 does not have.
GONE = {"xla_gpu_experimental_autotuner_cache_dir"}


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
