"""The table of settings: its entries, and the verdict of each on settings made here."""

from typing import get_args

import pytest

from impl._mode.compilation import parsed
from impl.diagnosis import _settings
from impl.diagnosis._report import Verdict
from impl.tests.diagnosis.test_program import FIXED, MACHINE, PROCESS

TABLE = _settings.table()
#: Flags of jaxlib 0.10 that jaxlib 0.12 does not have.
GONE = {"xla_gpu_experimental_autotuner_cache_dir"}
EXCLUDE = "xla_gpu_exclude_nondeterministic_ops"
LEVEL = "xla_gpu_autotune_level"
FUSIONS = "xla_gpu_experimental_enable_fusion_autotuner"
CACHE = "xla_gpu_per_fusion_autotune_cache_dir"
LOAD = "xla_gpu_load_autotune_results_from"
COMPLETE = "xla_gpu_require_complete_aot_autotune_results"
USUAL = {
    "jax_compilation_cache_dir": "None",
    "jax_default_matmul_precision": "None",
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_x64": "False",
    "jax_threefry_partitionable": "True",
}


def judged(platform, flags="", variables=(), config=()):
    settings = _settings.ProcessSettings(parsed(flags), dict(variables), USUAL | dict(config))
    items = {item.name: item for item in _settings.items(settings, platform)}
    assert all((item.remedy is not None) == item.varies for item in items.values())
    return items


@pytest.mark.parametrize(
    ("platform", "flags", "name", "verdict"),
    [
        ("gpu", "", EXCLUDE, PROCESS),
        ("gpu", f"--{EXCLUDE}=false", EXCLUDE, PROCESS),
        ("gpu", f"--{EXCLUDE}", EXCLUDE, FIXED),
        ("gpu", "--xla_gpu_deterministic_ops=1", EXCLUDE, FIXED),
        (None, "", EXCLUDE, PROCESS),
        ("cpu", f"--{EXCLUDE}=false", EXCLUDE, FIXED),
        ("gpu", "", LEVEL, PROCESS),
        ("gpu", "--xla_gpu_autotune_level=4", LEVEL, PROCESS),
        ("gpu", "--xla_gpu_autotune_level=0", LEVEL, FIXED),
        ("gpu", f"--{EXCLUDE}", LEVEL, PROCESS),
        ("gpu", "--xla_gpu_deterministic_ops", LEVEL, FIXED),
        ("gpu", "", FUSIONS, PROCESS),
        ("gpu", f"--{EXCLUDE}", FUSIONS, FIXED),
        ("gpu", f"--{FUSIONS}=false", FUSIONS, FIXED),
        ("gpu", "--xla_gpu_pgle_profile_file_or_directory_path=p", None, MACHINE),
        ("gpu", f"--{CACHE}=d", None, MACHINE),
        ("gpu", f"--{LEVEL}=0 --{CACHE}=d", CACHE, FIXED),
        ("gpu", f"--{LOAD}=f", None, PROCESS),
        ("gpu", f"--{LOAD}=f --{COMPLETE}", LOAD, FIXED),
        ("cpu", "", "xla_cpu_max_isa", MACHINE),
        ("cpu", "--xla_cpu_max_isa=AVX2", "xla_cpu_max_isa", FIXED),
        ("cpu", "--xla_cpu_enable_fast_math=true", None, MACHINE),
        ("cpu", "--xla_cpu_enable_fast_math=false", None, FIXED),
        ("cpu", "--xla_dump_to=d", None, FIXED),
        ("cpu", "--xla_of_another_day=3", None, FIXED),
    ],
)
def test_verdicts_of_flags(platform, flags, name, verdict):
    item = judged(platform, flags)[name or flags.removeprefix("--").split("=")[0]]
    assert item.verdict == verdict
    assert item.section == (
        "Caches" if "cache" in item.name or "load" in item.name else "XLA flags"
    )


@pytest.mark.parametrize(
    ("platform", "name", "value", "verdict"),
    [
        ("cpu", "PYTHONHASHSEED", None, PROCESS),
        ("cpu", "PYTHONHASHSEED", "random", PROCESS),
        ("cpu", "PYTHONHASHSEED", "0", FIXED),
        ("gpu", "CUBLAS_WORKSPACE_CONFIG", None, PROCESS),
        ("gpu", "CUBLAS_WORKSPACE_CONFIG", ":8:8", PROCESS),
        ("gpu", "CUBLAS_WORKSPACE_CONFIG", ":16:8", FIXED),
        ("cpu", "CUBLAS_WORKSPACE_CONFIG", ":8:8", FIXED),
        ("gpu", "CUDA_LAUNCH_BLOCKING", "1", FIXED),
        ("gpu", "CUDA_LAUNCH_BLOCKING", "0", FIXED),
        ("gpu", "TF_CUDNN_DETERMINISTIC", "1", FIXED),
        ("gpu", "XLA_PYTHON_CLIENT_PREALLOCATE", "false", FIXED),
        ("tpu", "LIBTPU_INIT_ARGS", "--xla_tpu_something", FIXED),
        ("cpu", "jax_enable_x64", "True", FIXED),
        ("cpu", "jax_default_matmul_precision", "None", FIXED),
        ("gpu", "jax_default_matmul_precision", "None", MACHINE),
        ("gpu", "jax_default_matmul_precision", "highest", FIXED),
        ("cpu", "jax_default_prng_impl", "rbg", MACHINE),
        ("cpu", "jax_random_seed_offset", "3", FIXED),
        ("gpu", "jax_enable_pgle", "True", PROCESS),
        ("gpu", "jax_bcoo_cusparse_lowering", "True", PROCESS),
        ("gpu", "jax_compilation_cache_dir", "None", FIXED),
        ("gpu", "jax_compilation_cache_dir", "/d", MACHINE),
        ("cpu", "jax_compilation_cache_dir", "/d", FIXED),
        ("cpu", "jax_disable_jit", "True", FIXED),
    ],
)
def test_verdicts_of_variables_and_settings_of_jax(platform, name, value, verdict):
    kind = "config" if name.startswith("jax_") else "variables"
    item = judged(platform, **{kind: {} if value is None else {name: value}})[name]
    assert (item.value, item.verdict) == (None if value == "None" else value, verdict)
    assert (item.section == "Environment variables") == (kind == "variables")


def test_usual_values_are_left_out_and_flags_of_another_platform_do_nothing():
    assert not judged("cpu", config={"jax_enable_pgle": "False"}).keys() & {"jax_enable_pgle"}
    assert "CUBLAS_WORKSPACE_CONFIG" not in judged("cpu")
    assert EXCLUDE not in judged("cpu")
    flag = judged("cpu", f"--{EXCLUDE}")[EXCLUDE]
    assert flag.reason == "It does nothing on a CPU."
    # A filled cache is fixed where nothing is timed.
    name = "jax_compilation_cache_dir"
    filled = judged("gpu", "--xla_gpu_autotune_level=0", config={name: "/d"})
    assert filled[name].verdict == FIXED


def test_the_entries_of_the_table_are_sound():
    assert len({setting.name for setting in TABLE.settings}) == len(TABLE.settings)
    for setting in TABLE.settings:
        assert setting.kind in get_args(_settings.Kind), setting.name
        assert setting.section in _settings.SECTIONS, setting.name
        for case in setting.cases:
            assert case.verdict in get_args(Verdict), setting.name
            assert (case.remedy is not None) == (case.verdict != FIXED), setting.name
            assert case.reason.endswith("."), setting.name
            assert case.given is None or case.given in TABLE.conditions, setting.name


def test_jaxlib_knows_every_flag_of_the_table(monkeypatch):
    value = {
        "xla_force_host_platform_device_count": "2",
        "xla_gpu_experimental_autotune_cache_mode": "AUTOTUNE_CACHE_MODE_READ",
    }
    flags = [
        f"--{setting.name}={value.get(setting.name, '0')}"
        for setting in TABLE.settings
        if setting.kind == "flag" and "*" not in setting.name and setting.name not in GONE
    ]
    assert len(flags) > 10
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))
    assert _settings.refusal() is None
