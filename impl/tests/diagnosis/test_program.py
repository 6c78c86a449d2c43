"""Items about the program: the mode, seeds, threads, switches, options; and the report as text.

The table of settings: its entries, and the verdict of each on settings made here.

Tests: impl.diagnosis._report, impl.diagnosis._settings.
"""

from typing import get_args

import pytest

import impl
from impl import random as impl_random
from impl._mode import compilation, modes
from impl._mode.compilation import parsed
from impl.diagnosis import _generators, _program, _settings
from impl.diagnosis._report import Item, Report, Verdict

FIXED, PROCESS, MACHINE, UNKNOWN = get_args(Verdict)


def named(items, name):
    (item,) = [item for item in items if item.name == name]
    return item


@pytest.mark.parametrize(
    ("mode", "platform", "verdict"),
    [
        ({"mode": False}, "cpu", MACHINE),
        ({"mode": False}, "gpu", PROCESS),
        ({"mode": False}, None, PROCESS),
        ({"mode": True}, "gpu", FIXED),
        ({"mode": True, "warn_only": True}, "gpu", PROCESS),
        ({"mode": True, "warn_only": True, "profile": "complete"}, "gpu", FIXED),
    ],
)
def test_verdicts_of_the_mode(mode, platform, verdict):
    with impl.deterministic(**mode):
        item = named(_program.mode(platform), "deterministic algorithms")
    assert item.verdict == verdict
    assert (item.remedy is None) == (verdict == FIXED)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"guarantee": "run_to_run"}, MACHINE),
        ({"guarantee": "portable"}, FIXED),
        ({"guarantee": "portable", "warn_only": True}, MACHINE),
    ],
)
def test_a_portable_program_may_run_on_other_devices_and_threads(options, verdict):
    with impl.deterministic(**options):
        _, item = _program.devices(None)
        assert item.verdict == _program.threads({}).verdict == verdict
        assert named(_program.mode("cpu"), "guarantee").value == options["guarantee"]


def test_the_engine_of_the_device():
    (item,) = _program.engine("cpu")
    assert (item.value, item.verdict) == ("native", FIXED)
    (item,) = _program.engine("tpu")
    assert item.value == "integers"
    assert "integers of 64 bits" in item.reason
    assert list(_program.engine(None)) == []


def test_scatters_of_jax_race_without_the_rules_for_them():
    with impl.deterministic():
        impl.programs.disable()
        item = named(_program.mode("gpu"), "deterministic algorithms")
        impl.programs.enable()
        assert "scatters of JAX keep" in named(_program.mode("gpu"), item.name).reason
    assert item.verdict == PROCESS
    assert "impl.programs.disable()" in item.remedy


def test_unfilled_memory_varies_where_memory_is_not_zeroed():
    name = "fill_uninitialized_memory"
    assert named(_program.mode("gpu"), name).verdict == FIXED
    modes.set_fill_uninitialized_memory(False)
    assert named(_program.mode("gpu"), name).verdict == PROCESS
    assert named(_program.mode("cpu"), name).verdict == FIXED


def test_verdicts_of_seeds(monkeypatch):
    monkeypatch.setattr(impl_random, "_libraries_seed", None)
    with impl.fork_rng():
        impl.seed()
        assert [item.verdict for item in _program.seeds()] == [PROCESS] * 3
        impl.manual_seed(3)
        assert [item.verdict for item in _program.seeds()] == [FIXED, PROCESS, PROCESS]
        monkeypatch.setattr(impl_random, "_libraries_seed", 2**32 + 3)
        assert [item.verdict for item in _program.seeds()] == [FIXED] * 3
        assert [item.value for item in _program.seeds()] == ["3", str(2**32 + 3), "3"]


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        (lambda: None, FIXED),
        (impl.default_generator.key, PROCESS),
        (impl.default_generator.draw_seed, PROCESS),
        (lambda: (impl.default_generator.draw_seed(), impl.manual_seed(3)), PROCESS),
        (lambda: (impl.manual_seed(3), impl.default_generator.draw_seed()), FIXED),
        (lambda: impl.Generator().key(), FIXED),
    ],
)
def test_a_default_generator_without_a_seed_counts_once_a_program_draws_from_it(program, verdict):
    impl.seed()
    with _generators.watched() as watch:
        program()
    item = next(_program.seeds(watch))
    assert (item.name, item.verdict) == ("impl.default_generator", verdict)
    if verdict == PROCESS:
        assert "test_program.py:" in item.reason


def test_threads_and_benchmarks():
    with impl.backends.cudnn.flags(benchmark=True):
        assert named(_program.compiler(None), "backends.cudnn.benchmark").verdict == PROCESS
        assert named(_program.compiler("cpu"), "backends.cudnn.benchmark").verdict == FIXED
    unset = _program.threads({})
    assert unset.verdict == MACHINE
    assert _program.threads({"NPROC": "3"}).verdict == FIXED
    assert _program.threads({"NPROC": "3", "PJRT_NPROC": "2"}).value == "2"


def test_options_that_jaxlib_does_not_know_are_reported(monkeypatch):
    with impl.deterministic():
        asked = compilation.settings()
        known = [item for item in _program.compiler("gpu") if item.name == asked[0].option]
        monkeypatch.setattr(compilation, "unknown_options", lambda: asked[:1])
        lost = named(_program.compiler("gpu"), asked[0].option)
    assert [item.verdict for item in known] == [FIXED]
    assert (lost.verdict, lost.value) == (PROCESS, None)
    assert asked[0].row in lost.reason


def test_neighbours_in_the_text_share_an_explanation():
    alike = [Item("S", name, "1", FIXED, "Alike.") for name in ("a", "bb")]
    other = Item("T", "c", None, MACHINE, "It differs.", "Set it.")
    fact = Item("T", "d", "x", MACHINE, "A fact.")
    report = Report("cpu", (*alike, other, fact))
    assert report.varying == (other,)
    varying = [
        "Varies per machine (2)",
        "  c   not set",
        "      It differs. To do: Set it.",
        "  d   x",
        "      A fact.",
        "",
    ]
    fixed = ["Fixed: S (2)", "  a   1", "  bb  1", "      Alike.", ""]
    last = "Of 4 items 0 per process and 2 per machine vary; 1 has a remedy."
    assert report.text(every=True).splitlines() == [*varying, *fixed, last]
    assert str(report).replace("  c ", "  c  ").replace("  d ", "  d  ").splitlines() == [
        *varying,
        f"{last} 2 more are fixed: --all lists them.",
    ]
    assert "None of 2 items varies. 2 more" in str(Report("cpu", tuple(alike)))


def test_the_text_begins_with_what_matters_most():
    sections = ("Versions", "Environment variables", "Seeds", "Mode", "Generators", "Programs")
    verdicts = (FIXED, MACHINE, UNKNOWN, PROCESS)
    items = [Item(s, f"{s} {v}", "1", v, f"Because of {s}.") for s in sections for v in verdicts]
    lines = [line.strip() for line in str(Report("gpu", tuple(items))).splitlines()]
    shown = [line.removesuffix("1").strip() for line in lines if line.endswith("  1")]
    order = ("Programs", "Generators", "Mode", "Seeds", "Versions", "Environment variables")
    assert shown == [
        *(f"{section} {verdict}" for verdict in (PROCESS, UNKNOWN, MACHINE) for section in order),
        f"Generators {FIXED}",
        f"Programs {FIXED}",
    ]


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
    assert len({setting.name for setting in TABLE}) == len(TABLE)
    for setting in TABLE:
        assert setting.kind in get_args(_settings.Kind), setting.name
        assert setting.section in _settings.SECTIONS, setting.name
        for case in setting.cases:
            assert case.verdict in get_args(Verdict), setting.name
            assert (case.remedy is not None) == (case.verdict != FIXED), setting.name
            assert case.reason.endswith("."), setting.name


def test_jaxlib_knows_every_flag_of_the_table(monkeypatch):
    value = {
        "xla_force_host_platform_device_count": "2",
        "xla_gpu_experimental_autotune_cache_mode": "AUTOTUNE_CACHE_MODE_READ",
    }
    flags = [
        f"--{setting.name}={value.get(setting.name, '0')}"
        for setting in TABLE
        if setting.kind == "flag" and "*" not in setting.name and setting.name not in GONE
    ]
    assert len(flags) > 10
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))
    assert _settings.refusal() is None
